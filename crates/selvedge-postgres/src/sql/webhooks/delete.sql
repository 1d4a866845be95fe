-- Deletes webhooks that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the webhooks, in the order of the array, which is that of the names. Index: webhooks_pkey, nested loop.
with gone as (
  delete from webhooks
  using unnest($1::integer[], $2::text[], $3::integer[]) as old (namespace, name, version)
  where webhooks.namespace = old.namespace
    and webhooks.name = old.name collate "C"
    and webhooks.version = old.version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::integer[]) then 1 else 0 end)
from gone
