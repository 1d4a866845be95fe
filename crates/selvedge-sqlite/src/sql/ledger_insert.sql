-- Writes an entry of the ledger, unless there is one. Expects the index ledger_entries.
insert into ledger ({ledger})
values (?1, ?2, ?3, ?4)
on conflict (gate, period, ifnull(execution, x'')) do nothing
