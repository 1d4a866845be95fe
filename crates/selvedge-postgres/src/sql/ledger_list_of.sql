-- What an execution has spent. Locks: nothing. Index: ledger_of.
select gate, period, execution, spent::text
from ledger
where execution = $1
  and execution is not null
order by gate, period
