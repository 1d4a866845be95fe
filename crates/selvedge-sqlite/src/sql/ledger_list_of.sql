-- What an execution has spent; it has spent of few budgets in few periods. Expects the index ledger_of.
-- ?1 execution
select {ledger}
from ledger indexed by ledger_of
where execution = ?1
order by gate, period
