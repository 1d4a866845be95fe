-- Serialises the growth of flows: takes an advisory lock for each number in $2, in order, until the transaction ends.
-- The locks have two keys, of which the first is the schema's, so none collides with the writers' lock, which has one.
-- Locks: those advisory locks. Index: none.
select pg_advisory_xact_lock($1::integer, ordered.number)
from (
  select number
  from unnest($2::integer[]) as asked (number)
  order by number
) as ordered
