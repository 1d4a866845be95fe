-- Returns the waiting executions of a pool, in claim order; the caller stops reading when it has enough. Reads only the
-- index.
-- Index: executions_claim_pool.
-- Parameters: ?1 pool
select rank, id, place
from executions indexed by executions_claim_pool
where state = {waiting}
  and pool = ?1
order by rank, id
