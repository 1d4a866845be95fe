-- Expects the primary key of sessions.
-- ?1 id
delete from sessions
where id = ?1
