-- Expects the primary key of sessions.
-- ?1 id
select {session}
from sessions
where id = ?1
