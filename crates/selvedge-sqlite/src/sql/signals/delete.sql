-- Deletes the signals of an execution.
-- Index: the primary key of signals.
-- Parameters: ?1 execution
delete from signals
where execution = ?1
