-- Returns the first waiting executions of a class, in claim order, with their specifications.
-- Index: executions_claim.
-- Parameters: ?1 class, ?2 how many
select rank, id, place, spec
from executions indexed by executions_claim
where state = {waiting}
  and class = ?1
order by rank, id
limit ?2
