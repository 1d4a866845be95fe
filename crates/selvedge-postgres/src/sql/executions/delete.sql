-- Deletes executions that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the executions. Index: executions_pkey.
with gone as (
  delete from executions
  using unnest($1::uuid[], $2::integer[]) as old (id, version)
  where executions.id = old.id
    and executions.version = old.version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::uuid[]) then 1 else 0 end)
from gone
