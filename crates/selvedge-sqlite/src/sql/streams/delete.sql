-- Deletes the streams of an execution.
-- Index: the primary key of streams.
-- Parameters: ?1 execution
delete from streams
where execution = ?1
