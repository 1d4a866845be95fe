-- Returns a page of the leases whose own first term has passed and whose session is gone or was not renewed in time, in
-- id order. The recursive query steps from session to session, so a live session costs one step however many leases it
-- holds.
-- Index: executions_session.
-- Parameters: ?1 now, ?2 the id after which the page begins, ?3 limit, ?4 the namespace or null, ?5 a text that the
-- tags contain or null
with recursive
held (session) as (
  select min(session)
  from executions indexed by executions_session
  where session is not null
  union all
  select (
    select min(further.session)
    from executions as further indexed by executions_session
    where further.session > held.session
  )
  from held
  where held.session is not null
),
expired (session, at) as (
  select held.session, ifnull(renewed_at + ttl_ms * 1000, 0)
  from held
  left join sessions on sessions.id = held.session
  where held.session is not null
    and ifnull(renewed_at + ttl_ms * 1000, 0) <= ?1
)
select id, max(until_at, expired.at), namespace, tags
from expired
cross join executions indexed by executions_session
where executions.session = expired.session
  and until_at <= ?1
  and id > ?2
  and (?4 is null or namespace = ?4)
  and (?5 is null or instr(tags, ?5) > 0)
order by id
limit ?3
