-- Returns gates by id.
-- Locks: none. Index: gates_pkey.
select {gate}
from gates
where gates.id = any($1)
