-- What was spent of a budget, or of a part of it, in a period: first what belongs to no execution, then by execution.
-- Expects the index ledger_entries.
-- ?1 gate, ?2 period
select {ledger}
from ledger indexed by ledger_entries
where gate = ?1
  and period = ?2
order by ifnull(execution, x'')
