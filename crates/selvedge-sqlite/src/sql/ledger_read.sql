-- Expects the index ledger_entries.
-- ?1 gate, ?2 period, ?3 execution or null
select spent
from ledger indexed by ledger_entries
where gate = ?1
  and period = ?2
  and ifnull(execution, x'') = ifnull(?3, x'')
