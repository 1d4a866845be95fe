-- Adds amounts to ledger entries, which are created where they do not exist. Amounts are exact numbers and saturate at
-- the largest amount.
-- Locks: the entries, in the order of the array. Index: ledger_entries.
insert into ledger (gate, period, execution, spent)
select gate, period, execution, spent::jsonb
from unnest($1::bigint[], $2::integer[], $3::uuid[], $4::text[]) as added (gate, period, execution, spent)
on conflict (gate, period, execution) do update
set spent = {added}
