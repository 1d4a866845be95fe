-- Deletes the usage of an execution.
-- Index: ledger_of.
-- Parameters: ?1 execution
delete from ledger
where execution = ?1
