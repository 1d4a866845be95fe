-- Which executions each gate holds, whoever has them, in claim order. Locks: nothing. Index: executions_held, once per gate.
select held.id, asked.number
from unnest($1::bigint[], $2::bigint[]) with ordinality as asked (gate, most, number)
cross join lateral (
  select id
  from executions
  where executions.gate = asked.gate
    and executions.gate is not null
  order by priority desc, ready_order, id
  limit asked.most
) as held
