-- Inserts schedules; fails with division_by_zero if one exists.
-- Locks: the new rows, in the order of the array, which is that of the key. Index: schedules_pkey.
with inserted as (
  insert into schedules (namespace, name, version, spec_version, spec, state, due_at)
  select *
  from unnest(
    $1::integer[], $2::text[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::timestamptz[]
  )
  on conflict (namespace, name) do nothing
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from inserted
