-- Deletes flows that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the flows, in the order of the array, which is id order. Index: flows_pkey, nested loop.
with gone as (
  delete from flows
  using unnest($1::uuid[], $2::integer[]) as old (id, version)
  where flows.id = old.id
    and flows.version = old.version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::uuid[]) then 1 else 0 end)
from gone
