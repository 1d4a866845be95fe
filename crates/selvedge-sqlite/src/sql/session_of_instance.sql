-- Expects the index sessions_instance.
-- ?1 namespace, ?2 instance
select
  id,
  namespace,
  worker,
  instance,
  ttl_ms,
  lanes,
  kinds,
  capabilities,
  registered_at,
  seen_at,
  renewed_at,
  draining
from sessions
where namespace = ?1
  and instance = ?2
order by id
