-- Inserts a ledger entry, unless it exists.
-- Index: ledger_entries.
-- Parameters: ?1 to ?4 as {ledger}
insert into ledger ({ledger})
values (?1, ?2, ?3, ?4)
on conflict (gate, period, ifnull(execution, x'')) do nothing
