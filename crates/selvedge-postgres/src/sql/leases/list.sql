-- Returns the leases that the sessions of instances hold.
-- Locks: none. Index: sessions_instance, executions_lease.
select held.id, held.session, held.lease_id, held.epoch, held.until_at, sessions.ttl_ms, held.detail
from unnest($1::integer[], $2::text[]) as asked (namespace, instance)
join sessions on sessions.namespace = asked.namespace and sessions.instance = asked.instance
join executions as held on held.session = sessions.id
where held.session is not null
