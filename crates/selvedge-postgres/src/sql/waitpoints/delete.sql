-- Deletes the waitpoints of executions.
-- Locks: the waitpoints. Index: waitpoints_of_execution.
delete from waitpoints
where execution = any($1)
