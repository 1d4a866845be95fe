-- A waitpoint by its id. Locks: nothing. Index: waitpoints_pkey.
select {waitpoint}
from waitpoints
where id = $1
