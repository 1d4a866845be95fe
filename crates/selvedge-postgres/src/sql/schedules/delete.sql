-- Deletes schedules that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the schedules, which are locked already. Index: schedules_pkey, nested loop.
with gone as (
  delete from schedules
  using unnest($1::integer[], $2::text[], $3::integer[]) as old (namespace, name, version)
  where schedules.namespace = old.namespace
    and schedules.name = old.name
    and schedules.version = old.version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from gone
