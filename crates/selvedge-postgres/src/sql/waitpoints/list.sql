-- Returns a page of the waitpoints of an execution after number $2, in order.
-- Locks: none. Index: waitpoints_of_execution.
select {waitpoint}
from waitpoints
where execution = $1
  and number > $2
order by number
limit $3
