-- Counts the executions that gate $1 holds, up to $2.
-- Locks: none. Index: executions_held.
select count(*)
from (
  select
  from executions
  where executions.gate = $1
    and executions.gate is not null
  limit $2
) as counted
