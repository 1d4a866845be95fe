-- Counts the waiting executions of a class. Reads only the index.
-- Index: executions_claim.
-- Parameters: ?1 class, ?2 the most to count
select count(*)
from (
  select 1
  from executions indexed by executions_claim
  where state = {waiting}
    and class = ?1
  limit ?2
)
