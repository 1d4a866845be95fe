-- Returns the amounts of a ledger entry.
-- Index: ledger_entries.
-- Parameters: ?1 gate, ?2 period, ?3 execution or null
select spent
from ledger indexed by ledger_entries
where gate = ?1
  and period = ?2
  and ifnull(execution, x'') = ifnull(?3, x'')
