-- Deletes the attempts of an execution from the projection.
-- Index: the primary key of projected_attempts.
delete from projected_attempts
where execution = ?1
