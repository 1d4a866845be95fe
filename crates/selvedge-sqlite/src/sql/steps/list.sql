-- Returns a page of the steps of an execution after a number, in order.
-- Index: the primary key of steps.
-- Parameters: ?1 execution, ?2 number, ?3 limit
select {step}
from steps
where execution = ?1
  and number > ?2
order by number
limit ?3
