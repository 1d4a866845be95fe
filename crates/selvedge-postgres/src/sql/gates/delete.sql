-- Deletes gates that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the gates, in the order of the array, which is id order. Index: gates_pkey, nested loop.
with gone as (
  delete from gates
  using unnest($1::bigint[], $2::integer[]) as old (id, version)
  where gates.id = old.id
    and gates.version = old.version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::bigint[]) then 1 else 0 end)
from gone
