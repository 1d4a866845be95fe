-- Counts the executions of a namespace in a state that is neither waiting nor completed, by class or, where they have one,
-- by pool. Looks at the oldest. Active ones have the time of their claim, the others that of their submission.
-- Index: executions_by_state, the primary key of sessions.
-- Parameters: ?1 namespace, ?2 state, ?3 the most to look at
select range, count(*), min(since)
from (
  select
    ifnull(pool, class) as range,
    ifnull(until_at - (select ttl_ms from sessions where sessions.id = executions.session) * 1000, submitted_at) as since
  from executions indexed by executions_by_state
  where namespace = ?1
    and state = ?2
    and state <> {completed}
  order by submitted_at, id
  limit ?3
)
group by range
