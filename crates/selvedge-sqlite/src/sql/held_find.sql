-- The executions that one gate holds behind a place, in claim order; the reader stops when it has enough.
-- Reads the index executions_held and no row.
-- ?1 gate, ?2 rank, ?3 id
select id
from executions indexed by executions_held
where gate = ?1
  and (rank, id) > (?2, ?3)
order by rank, id
