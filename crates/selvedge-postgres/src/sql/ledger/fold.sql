-- Moves the ledger entries of deleted executions to the entries without an execution, so that their usage stays
-- counted.
-- Locks: the entries, in order of gate and period. Index: ledger_of, once per execution; ledger_entries where there
-- were any.
with gone as (
  delete from ledger
  where execution = any($1)
    and execution is not null
  returning gate, period, spent
)
insert into ledger (gate, period, execution, spent)
select gate, period, null, coalesce(jsonb_object_agg(dimension, amount) filter (where dimension is not null), '{}')
from (
  select gone.gate, gone.period, each.key as dimension, least(sum(each.value::numeric), {most}) as amount
  from gone
  left join lateral jsonb_each_text(gone.spent) as each on true
  group by gone.gate, gone.period, each.key
) as summed
group by gate, period
order by gate, period
on conflict (gate, period, execution) do update
set spent = {added}
