-- Returns the waiting executions of a class, in claim order; the caller stops reading when it has enough. Reads only
-- the index.
-- Index: executions_claim.
-- Parameters: ?1 class
select rank, id, place
from executions indexed by executions_claim
where state = {waiting}
  and class = ?1
order by rank, id
