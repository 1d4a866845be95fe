-- Returns the ids of the first executions that each gate holds after a position, in claim order, with the number of the
-- request (from 1). Rows that other transactions have locked are included.
-- Locks: none. Index: executions_held, once per gate.
select held.id, asked.number
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[]) with ordinality as asked (gate, most, rank, id, number)
cross join lateral (
  select id
  from executions
  where executions.gate = asked.gate
    and executions.gate is not null
    and (executions.gate_rank, executions.id) > (asked.rank, asked.id)
  order by gate_rank, id
  limit asked.most
) as held
