-- Expects the primary key of signals.
-- ?1 execution
delete from signals
where execution = ?1
