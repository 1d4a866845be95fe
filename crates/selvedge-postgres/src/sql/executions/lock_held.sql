-- Returns the first executions that each gate holds after a position, in claim order, with the number of the request
-- (from 1). Rows that another transaction has locked and the ids in $5 are skipped.
-- Locks: the returned executions. Index: executions_held, once per gate.
select held.*, asked.number
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[]) with ordinality as asked (gate, most, rank, id, number)
cross join lateral (
  select {columns}
  from executions
  where executions.gate = asked.gate
    and executions.gate is not null
    and (executions.gate_rank, executions.id) > (asked.rank, asked.id)
    and executions.id <> all($5)
  order by gate_rank, id
  limit asked.most
  for no key update skip locked
) as held
