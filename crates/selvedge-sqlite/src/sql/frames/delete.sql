-- Deletes the frames of an execution.
-- Index: the primary key of frames.
-- Parameters: ?1 execution
delete from frames
where execution = ?1
