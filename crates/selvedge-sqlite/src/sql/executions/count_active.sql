-- Counts the active executions of a namespace by class or, where they have one, by pool.
-- Index: executions_by_state.
-- Parameters: ?1 namespace, ?2 the most to count
select range, count(*)
from (
  select ifnull(pool, class) as range
  from executions indexed by executions_by_state
  where namespace = ?1
    and state = {active}
    and state <> {completed}
  limit ?2
)
group by range
