-- Counts the live executions of namespace $1 that are not waiting, by state and by class or, where they have one, by pool.
-- Looks at the $2 oldest of each state. Active ones have the time of their claim, the others that of their submission.
-- Locks: none. Index: executions_list_by_state, once per state; sessions_instance, then executions_lease, once per session.
select coalesce(pool, class), state, count(*), min(since)
from (
  select listed.*
  from unnest(array[{waiting_dependencies}, {delayed}, {held}, {suspended}]::smallint[]) as asked (state)
  cross join lateral (
    select pool, class, executions.state, submitted_at as since
    from executions
    where namespace = $1
      and executions.state = asked.state
      and executions.state not in ({waiting}, {active}, {completed})
    order by submitted_at, id
    limit $2
  ) as listed
  union all
  (
    select executions.pool, executions.class, executions.state,
      executions.until_at - holder.ttl_ms * interval '1 millisecond'
    from sessions as holder
    join executions on executions.session = holder.id
    where holder.namespace = $1
      and executions.session is not null
      and executions.namespace = $1
    limit $2
  )
) as live
group by 1, 2
