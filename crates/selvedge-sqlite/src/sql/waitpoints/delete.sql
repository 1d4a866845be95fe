-- Deletes the waitpoints of an execution.
-- Index: the primary key of waitpoints.
-- Parameters: ?1 execution
delete from waitpoints
where execution = ?1
