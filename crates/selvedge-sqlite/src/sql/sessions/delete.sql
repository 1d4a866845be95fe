-- Deletes a session.
-- Index: the primary key of sessions.
-- Parameters: ?1 id
delete from sessions
where id = ?1
