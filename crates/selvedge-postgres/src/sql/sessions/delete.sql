-- Deletes sessions by id.
-- Locks: the sessions. Index: sessions_pkey.
delete from sessions
where id = any($1)
