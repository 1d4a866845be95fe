-- Updates webhooks that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the webhooks, in the order of the array, which is that of the names. Index: webhooks_pkey, nested loop.
with saved as (
  update webhooks
  set version = new.version,
    detail = new.detail
  from unnest($1::integer[], $2::text[], $3::integer[], $4::text[], $5::integer[])
    as new (namespace, name, version, detail, expected_version)
  where webhooks.namespace = new.namespace
    and webhooks.name = new.name collate "C"
    and webhooks.version = new.expected_version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from saved
