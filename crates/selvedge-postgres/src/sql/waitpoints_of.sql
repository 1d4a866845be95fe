-- Waitpoints of an execution after a number, in order. Locks: nothing. Index: waitpoints_of_execution.
select {waitpoint}
from waitpoints
where execution = $1
  and number > $2
order by number
limit $3
