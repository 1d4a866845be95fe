-- Deletes the frames of executions.
-- Locks: the frames. Index: frames_pkey.
delete from frames
where execution = any($1)
