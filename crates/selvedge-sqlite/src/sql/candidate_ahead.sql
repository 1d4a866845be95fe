-- How many ready executions of a class come before a place in claim order, up to a bound.
-- Reads the index executions_claim and no row.
-- ?1 class, ?2 priority, ?3 ready_order, ?4 id, ?5 bound
select count(*)
from (
  select 1
  from executions indexed by executions_claim
  where state = 0
    and class = ?1
    and priority > ?2
  union all
  select 1
  from executions indexed by executions_claim
  where state = 0
    and class = ?1
    and priority = ?2
    and (ready_order, id) < (?3, ?4)
  limit ?5
)
