-- Returns a session.
-- Index: the primary key of sessions.
-- Parameters: ?1 id
select {session}
from sessions
where id = ?1
