-- Returns a waitpoint by id.
-- Locks: none. Index: waitpoints_pkey.
select {waitpoint}
from waitpoints
where id = $1
