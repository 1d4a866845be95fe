-- Expects the primary key of streams.
-- ?1 execution
delete from streams
where execution = ?1
