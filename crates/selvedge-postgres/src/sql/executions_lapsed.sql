-- Leases whose first term has passed and whose session was not renewed in time, or is gone. Locks: nothing.
-- Index: executions_lease, once per lapsed session.
select held.id, held.until_at, held.namespace, held.tags
from sessions
join executions as held on held.session = sessions.id
where held.session is not null
  and held.until_at < clock_timestamp()
  and (
    sessions.renewed_at is null
    or sessions.renewed_at + sessions.ttl_ms * interval '1 millisecond' < clock_timestamp()
  )
  and held.id > $1
order by held.id
limit $2
