-- Index: sessions_pkey.
delete from sessions
where id = any($1)
