-- Returns the executions that a gate holds after a position, in claim order; the caller stops reading when it has
-- enough. Reads only the index.
-- Index: executions_held.
-- Parameters: ?1 gate, ?2 and ?3 the position (rank, id)
select id
from executions indexed by executions_held
where gate = ?1
  and (rank, id) > (?2, ?3)
order by rank, id
