-- Counts the flows of a namespace in a state. Reads only the index.
-- Index: flows_by_state.
-- Parameters: ?1 namespace, ?2 state, ?3 the most to count
select count(*)
from (
  select 1
  from flows indexed by flows_by_state
  where namespace = ?1
    and state = ?2
  limit ?3
)
