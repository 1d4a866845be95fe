-- Returns a page of the leases whose own first term has passed and whose session is gone or was not renewed in time, in
-- id order. The recursive query steps from session to session, so a live session costs one step however many leases it
-- holds. An index condition cannot contain a volatile function, so the time is read once in a subquery.
-- $3 and $4 restrict it to a namespace and to tags that contain a text, if they are not null.
-- Locks: none. Index: executions_lease, once per session with leases and once more per expired one; sessions_pkey.
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
    and until_at < (select {now})
    and id > $1
    and ($3::integer is null or namespace = $3)
    and ($4::text is null or strpos(tags, $4) > 0)
  -- Keeps the planner from scanning all executions in the order of their ids.
  offset 0
) as held
where sessions.renewed_at is null
  or sessions.renewed_at + sessions.ttl_ms * interval '1 millisecond' < {now}
order by held.id
limit $2
