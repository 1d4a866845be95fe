-- Counts the executions that a gate holds. Reads only the index.
-- Index: executions_held.
-- Parameters: ?1 gate, ?2 the most to count
select count(*)
from (
  select 1
  from executions indexed by executions_held
  where gate = ?1
  limit ?2
)
