-- Leases whose first term has passed and whose session was not renewed in time, or is gone. Locks: nothing.
-- Index: executions_lease, once per session that holds something and once more per lapsed one; sessions_pkey.
-- The time is asked for once: an index condition cannot hold a function whose value changes.
with recursive holding (session) as (
  select min(session)
  from executions
  where session is not null
  union all
  select (
    select min(further.session)
    from executions as further
    where further.session > holding.session
  )
  from holding
  where holding.session is not null
)
select held.id, held.until_at, held.namespace, held.tags
from holding
left join sessions on sessions.id = holding.session
cross join lateral (
  select id, until_at, namespace, tags
  from executions
  where executions.session = holding.session
    and executions.session is not null
    and until_at < (select clock_timestamp())
    and id > $1
  -- Keeps the planner from walking all executions in the order of their ids.
  offset 0
) as held
where sessions.renewed_at is null
  or sessions.renewed_at + sessions.ttl_ms * interval '1 millisecond' < clock_timestamp()
order by held.id
limit $2
