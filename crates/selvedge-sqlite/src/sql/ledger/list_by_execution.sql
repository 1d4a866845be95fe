-- Returns the usage of an execution, by gate and period; it has few entries.
-- Index: ledger_of.
-- Parameters: ?1 execution
select {ledger}
from ledger indexed by ledger_of
where execution = ?1
order by gate, period
