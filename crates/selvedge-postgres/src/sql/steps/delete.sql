-- Deletes the steps of executions.
-- Locks: the steps. Index: steps_pkey.
delete from steps
where execution = any($1)
