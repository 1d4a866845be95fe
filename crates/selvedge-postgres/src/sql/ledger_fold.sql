-- What deleted executions have spent stays spent, by none: their entries are added to those without an execution, in the order
-- of gates and periods. Index: ledger_of, once per execution; then, only where there is something, ledger_entries.
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
