-- Expects the primary key of gates.
-- ?1 id
select {gate}
from gates
where id = ?1
