-- Writes an entry of the ledger, new or not. Expects the index ledger_entries.
insert into ledger ({ledger})
values (?1, ?2, ?3, ?4)
on conflict (gate, period, ifnull(execution, x'')) do update
set spent = excluded.spent
