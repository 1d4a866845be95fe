-- Updates schedules that must still have their expected version; fails with division_by_zero if one does not. A specification
-- that is null stays as it is.
-- Locks: the schedules, which are locked already. Index: schedules_pkey, nested loop.
with saved as (
  update schedules
  set version = new.version,
    spec_version = new.spec_version,
    spec = coalesce(new.spec, schedules.spec),
    state = new.state,
    due_at = new.due_at
  from unnest(
    $1::integer[], $2::text[], $3::integer[], $4::integer[], $5::integer[], $6::text[], $7::text[], $8::timestamptz[]
  ) as new (namespace, name, expected_version, version, spec_version, spec, state, due_at)
  where schedules.namespace = new.namespace
    and schedules.name = new.name
    and schedules.version = new.expected_version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from saved
