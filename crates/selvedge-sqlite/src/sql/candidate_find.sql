-- The ready executions of one class, in claim order; the reader stops when it has enough.
-- Reads the index executions_claim and no row.
-- ?1 class
select rank, id, place
from executions indexed by executions_claim
where state = 0
  and class = ?1
order by rank, id
