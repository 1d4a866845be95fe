-- Counts the waiting executions of a pool, with the earliest time since which one of them waits.
-- Index: executions_claim_pool.
-- Parameters: ?1 pool, ?2 the most to look at
select count(*), min(ready_order)
from (
  select ready_order
  from executions indexed by executions_claim_pool
  where state = {waiting}
    and pool = ?1
  order by rank, id
  limit ?2
)
