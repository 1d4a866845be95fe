-- Returns the usage of a budget, or of a part of it, in a period: first the entry without an execution, then by
-- execution.
-- Index: ledger_entries.
-- Parameters: ?1 gate, ?2 period
select {ledger}
from ledger indexed by ledger_entries
where gate = ?1
  and period = ?2
order by ifnull(execution, x'')
