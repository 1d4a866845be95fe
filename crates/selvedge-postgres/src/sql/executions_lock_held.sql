-- Locks: the first executions that each gate holds, in claim order, unless somebody else has them. Gates are numbered from 1
-- as they are asked for. Index: executions_held, once per gate.
select held.*, asked.number
from unnest($1::bigint[], $2::bigint[]) with ordinality as asked (gate, most, number)
cross join lateral (
  select {columns}
  from executions
  where executions.gate = asked.gate
    and executions.gate is not null
    and id <> all($3)
  order by priority desc, ready_order, id
  limit asked.most
  for no key update skip locked
) as held
