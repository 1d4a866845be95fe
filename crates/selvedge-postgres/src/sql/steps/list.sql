-- Returns a page of the steps of an execution after number $2, in order.
-- Locks: none. Index: steps_pkey; then a sort of all its steps.
select {step}
from steps
where execution = $1
  and number > $2
order by number
limit $3
