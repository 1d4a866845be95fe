-- Returns sessions by id.
-- Locks: none. Index: sessions_pkey.
select {session}
from sessions
where id = any($1)
