-- Counts the waiting executions of each class or pool (negative) of $1, each up to $2.
-- Locks: none. Index: executions_claim or executions_claim_pool, once per class or pool.
select asked.range, counted.count
from unnest($1::integer[]) as asked (range)
cross join lateral (
  select count(*)
  from (
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
) as counted
