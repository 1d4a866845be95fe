-- Returns sessions by id.
-- Locks: the sessions, in id order. Index: sessions_pkey.
select {session}
from sessions
where id = any($1)
order by id
for update
