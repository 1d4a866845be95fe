-- Returns a page of the waitpoints of an execution after a number, in order.
-- Index: the primary key of waitpoints.
-- Parameters: ?1 execution, ?2 number, ?3 limit
select {waitpoint}
from waitpoints
where execution = ?1
  and number > ?2
order by number
limit ?3
