-- Leases whose own first term and whose session have both lapsed. Walks from session to session in the index
-- executions_session, so that live sessions cost one step each however many leases they hold.
-- ?1 now, ?2 the id after which to begin, ?3 limit
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
lapsed (session, at) as (
  select held.session, ifnull(renewed_at + ttl_ms * 1000, 0)
  from held
  left join sessions on sessions.id = held.session
  where held.session is not null
    and ifnull(renewed_at + ttl_ms * 1000, 0) <= ?1
)
select id, max(until_at, lapsed.at), namespace, tags
from lapsed
cross join executions indexed by executions_session
where executions.session = lapsed.session
  and until_at <= ?1
  and id > ?2
order by id
limit ?3
