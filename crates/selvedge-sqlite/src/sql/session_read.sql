-- Expects the primary key of sessions.
-- ?1 id
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
where id = ?1
