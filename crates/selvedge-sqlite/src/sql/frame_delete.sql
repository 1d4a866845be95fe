-- Expects the primary key of frames.
-- ?1 execution
delete from frames
where execution = ?1
