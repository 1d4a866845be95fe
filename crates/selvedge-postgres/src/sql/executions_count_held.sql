-- How many executions a gate holds, counted up to a bound. Locks: nothing. Index: executions_held.
select count(*)
from (
  select
  from executions
  where executions.gate = $1
    and executions.gate is not null
  limit $2
) as counted
