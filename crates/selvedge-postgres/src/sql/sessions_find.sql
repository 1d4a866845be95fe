-- Locks: nothing. Index: sessions_pkey.
select {session}
from sessions
where id = any($1)
