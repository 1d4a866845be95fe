-- Steps of an execution after a number, in order. Locks: nothing. Index: steps_pkey; then a sort of all its steps.
select {step}
from steps
where execution = $1
  and number > $2
order by number
limit $3
