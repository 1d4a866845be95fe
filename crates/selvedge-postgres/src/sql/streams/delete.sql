-- Deletes the streams of executions.
-- Locks: the streams. Index: streams_pkey.
delete from streams
where execution = any($1)
