-- Updates gates that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the gates, in the order of the array, which is id order. Index: gates_pkey, nested loop.
with saved as (
  update gates
  set version = new.version,
    limits = new.limits,
    config = new.config,
    active = new.active,
    state = new.state,
    due_at = new.due_at
  from unnest(
    $1::bigint[], $2::integer[], $3::integer[], $4::boolean[], $5::text[], $6::integer[], $7::text[], $8::timestamptz[]
  ) as new (id, expected_version, version, limits, config, active, state, due_at)
  where gates.id = new.id
    and gates.version = new.expected_version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::bigint[]) then 1 else 0 end)
from saved
