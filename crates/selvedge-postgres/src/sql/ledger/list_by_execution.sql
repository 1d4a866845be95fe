-- Returns the usage of an execution, by gate and period.
-- Locks: none. Index: ledger_of.
select {ledger_entry}
from ledger
where execution = $1
  and execution is not null
order by gate, period
