-- Returns a gate.
-- Index: the primary key of gates.
-- Parameters: ?1 id
select {gate}
from gates
where id = ?1
