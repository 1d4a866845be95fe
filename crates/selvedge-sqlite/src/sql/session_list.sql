-- Reads every session: they are few. Expects the primary key of sessions.
-- ?1 namespace, or null for all
select {session}
from sessions
where ?1 is null or namespace = ?1
order by id
