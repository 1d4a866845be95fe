-- Updates webhooks that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the webhooks, in the order of the array, which is that of the names. Index: webhooks_pkey, nested loop.
with saved as (
  update webhooks
  set version = new.version,
    detail = new.detail
  from unnest({webhook_types}, $5::integer[])
    as new ({webhook}, expected_version)
  where webhooks.namespace = new.namespace
    and webhooks.name = new.name collate "C"
    and webhooks.version = new.expected_version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from saved
