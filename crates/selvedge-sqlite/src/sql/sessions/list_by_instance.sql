-- Returns the sessions of an instance, by id.
-- Index: sessions_instance.
-- Parameters: ?1 namespace, ?2 instance
select {session}
from sessions
where namespace = ?1
  and instance = ?2
order by id
