-- Deletes the attempts of executions from the projection.
-- Locks: the attempts. Index: projected_attempts_pkey.
delete from projected_attempts
where execution = any($1)
