-- How many ready executions of a class come before a place in claim order, up to a bound.
-- Reads the index executions_claim and no row.
-- ?1 class, ?2 rank, ?3 id, ?4 bound
select count(*)
from (
  select 1
  from executions indexed by executions_claim
  where state = 0
    and class = ?1
    and (rank, id) < (?2, ?3)
  limit ?4
)
