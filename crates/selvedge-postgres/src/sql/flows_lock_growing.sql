-- Locks: the growing of flows, each by its number in the schema, in order, until the transaction ends. The locks are
-- advisory and have two keys, so none of them is ever the writers' lock, which has one.
select pg_advisory_xact_lock($1::integer, ordered.number)
from (
  select number
  from unnest($2::integer[]) as asked (number)
  order by number
) as ordered
