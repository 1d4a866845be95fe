-- Counts the flows of namespace $1 in state $2, up to $3.
-- Locks: none. Index: flows_list_by_state.
select count(*)
from (
  select
  from flows
  where namespace = $1
    and state = $2
  limit $3
) as counted
