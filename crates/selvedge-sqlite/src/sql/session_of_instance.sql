-- Expects the index sessions_instance.
-- ?1 namespace, ?2 instance
select {session}
from sessions
where namespace = ?1
  and instance = ?2
order by id
