-- Counts the waiting executions of a pool. Reads only the index.
-- Index: executions_claim_pool.
-- Parameters: ?1 pool, ?2 the most to count
select count(*)
from (
  select 1
  from executions indexed by executions_claim_pool
  where state = {waiting}
    and pool = ?1
  limit ?2
)
