-- Deletes the separate input of an execution, if it has one.
-- Index: the primary key of inputs.
-- Parameters: ?1 execution
delete from inputs
where execution = ?1
