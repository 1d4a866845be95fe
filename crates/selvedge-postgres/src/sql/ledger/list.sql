-- Returns the usage of a budget in a period: first the entry without an execution, then by execution.
-- Locks: none. Index: ledger_entries.
select {ledger_entry}
from ledger
where gate = $1
  and period = $2
order by execution nulls first
