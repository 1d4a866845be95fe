-- Returns the sessions of a namespace, by id. Reads the whole table: sessions are few.
-- Index: the primary key of sessions.
-- Parameters: ?1 namespace, or null for all
select {session}
from sessions
where ?1 is null or namespace = ?1
order by id
