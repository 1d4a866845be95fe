-- Counts the waiting executions of the classes and pools (negative) $1, up to $2.
-- Locks: none. Index: executions_claim or executions_claim_pool, once per class or pool.
select count(*)
from (
  select
  from unnest($1::integer[]) as asked (range)
  cross join lateral (
    (
      select
      from executions
      where asked.range > 0
        and executions.class = asked.range
        and state = {waiting}
      limit $2
    )
    union all
    (
      select
      from executions
      where asked.range < 0
        and executions.pool = asked.range
        and executions.pool is not null
        and state = {waiting}
      limit $2
    )
  ) as waiting
  limit $2
) as counted
