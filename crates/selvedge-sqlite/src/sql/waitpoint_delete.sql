-- Expects the primary key of waitpoints.
-- ?1 execution
delete from waitpoints
where execution = ?1
