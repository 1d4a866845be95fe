-- Counts the waiting executions of a class, with the earliest time since which one of them waits.
-- Index: executions_claim.
-- Parameters: ?1 class, ?2 the most to look at
select count(*), min(ready_order)
from (
  select ready_order
  from executions indexed by executions_claim
  where state = {waiting}
    and class = ?1
  order by rank, id
  limit ?2
)
