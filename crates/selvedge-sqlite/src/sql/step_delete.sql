-- Expects the primary key of steps or the index steps_name.
-- ?1 execution
delete from steps
where execution = ?1
