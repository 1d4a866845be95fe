-- Counts the waiting executions of a class that claims take before a position. Reads only the index.
-- Index: executions_claim.
-- Parameters: ?1 class, ?2 rank, ?3 id, ?4 the most to count
select count(*)
from (
  select 1
  from executions indexed by executions_claim
  where state = {waiting}
    and class = ?1
    and (rank, id) < (?2, ?3)
  limit ?4
)
