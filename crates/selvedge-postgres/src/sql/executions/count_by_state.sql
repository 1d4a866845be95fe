-- Counts the executions of namespace $1 in the state $2, up to $3. Waiting, active and completed executions have no entry in the index.
-- Compares nothing that is not in the index, so that it need not read rows.
-- Locks: none. Index: executions_list_by_state.
select count(*)
from (
  select
  from executions
  where namespace = $1
    and state = $2
    and state not in ({waiting}, {active}, {completed})
  limit $3
) as counted
