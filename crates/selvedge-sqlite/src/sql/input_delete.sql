-- Expects the primary key of inputs.
-- ?1 execution
delete from inputs
where execution = ?1
