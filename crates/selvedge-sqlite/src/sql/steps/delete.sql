-- Deletes the steps of an execution.
-- Index: the primary key of steps or steps_name.
-- Parameters: ?1 execution
delete from steps
where execution = ?1
