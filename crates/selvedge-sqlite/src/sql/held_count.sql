-- How many executions a gate holds, up to a bound. Reads the index executions_held and no row.
-- ?1 gate, ?2 bound
select count(*)
from (
  select 1
  from executions indexed by executions_held
  where gate = ?1
  limit ?2
)
