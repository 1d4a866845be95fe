-- Reads every session: they are few. Expects the primary key of sessions.
-- ?1 namespace, or null for all
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
where ?1 is null or namespace = ?1
order by id
