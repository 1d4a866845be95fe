-- Waitpoints of an execution in the order in which they were made. Expects the primary key of waitpoints.
-- ?1 execution, ?2 the number after which to begin, ?3 limit
select {waitpoint}
from waitpoints
where execution = ?1
  and number > ?2
order by number
limit ?3
