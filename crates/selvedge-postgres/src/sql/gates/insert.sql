-- Inserts gates; fails with division_by_zero if one exists.
-- Locks: the new rows, in the order of the array, which is id order: a transaction that inserts the same gate waits
-- here. Index: gates_pkey.
with inserted as (
  insert into gates (id, namespace, kind, name, part, version, limits, config, active, state, due_at)
  select *
  from unnest(
    $1::bigint[], $2::integer[], $3::smallint[], $4::text[], $5::text[], $6::integer[], $7::boolean[], $8::text[],
    $9::integer[], $10::text[], $11::timestamptz[]
  )
  on conflict (id) do nothing
  returning 1
)
select 1 / (case when count(*) = cardinality($1::bigint[]) then 1 else 0 end)
from inserted
