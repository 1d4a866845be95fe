-- Deletes what an execution has spent. Expects the index ledger_of.
-- ?1 execution
delete from ledger
where execution = ?1
