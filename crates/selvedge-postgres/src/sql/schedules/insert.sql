-- Inserts schedules; fails with division_by_zero if one exists.
-- Locks: the new rows, in the order of the array, which is that of the key. Index: schedules_pkey.
with inserted as (
  insert into schedules ({schedule_columns})
  select *
  from unnest({schedule_types})
  on conflict (namespace, name) do nothing
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from inserted
