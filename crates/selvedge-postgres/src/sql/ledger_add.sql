-- Adds to entries of the ledger, new or not, in the order of the array. Amounts are added as exact numbers and stay where the
-- largest amount is. Index: ledger_entries.
insert into ledger (gate, period, execution, spent)
select gate, period, execution, spent::jsonb
from unnest($1::bigint[], $2::integer[], $3::uuid[], $4::text[]) as added (gate, period, execution, spent)
on conflict (gate, period, execution) do update
set spent = {added}
