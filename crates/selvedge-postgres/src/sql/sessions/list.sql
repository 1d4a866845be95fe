-- Returns the sessions of namespace $1, or of all namespaces if it is null, by id. Reads the whole table: sessions are
-- few.
-- Locks: none. Index: sessions_pkey.
select {session}
from sessions
where ($1::integer is null or namespace = $1)
order by id
