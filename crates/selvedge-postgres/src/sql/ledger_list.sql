-- What was spent of a budget in a period. Locks: nothing. Index: ledger_entries.
select gate, period, execution, spent::text
from ledger
where gate = $1
  and period = $2
order by execution nulls first
