-- Steps of an execution in the order in which they were begun. Expects the primary key of steps.
-- ?1 execution, ?2 the number after which to begin, ?3 limit
select {step}
from steps
where execution = ?1
  and number > ?2
order by number
limit ?3
