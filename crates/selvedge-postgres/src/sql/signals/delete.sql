-- Deletes the signals of executions.
-- Locks: the signals. Index: signals_pkey.
delete from signals
where execution = any($1)
