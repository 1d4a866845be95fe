-- Inserts or replaces a ledger entry.
-- Index: ledger_entries.
-- Parameters: ?1 to ?4 as {ledger}
insert into ledger ({ledger})
values (?1, ?2, ?3, ?4)
on conflict (gate, period, ifnull(execution, x'')) do update
set spent = excluded.spent
