-- Counts the waiting executions of each class or pool (negative) of $1, each up to $2, with the earliest time since which
-- one of them waits.
-- Locks: none. Index: executions_claim or executions_claim_pool, once per class or pool.
select asked.range, counted.count, counted.oldest_at
from unnest($1::integer[]) as asked (range)
cross join lateral (
  select count(*), min(ready_order) as oldest_at
  from (
    (
      select ready_order
      from executions
      where asked.range > 0
        and executions.class = asked.range
        and state = {waiting}
      order by claim_priority desc, ready_order, id
      limit $2
    )
    union all
    (
      select ready_order
      from executions
      where asked.range < 0
        and executions.pool = asked.range
        and executions.pool is not null
        and state = {waiting}
      order by claim_priority desc, ready_order, id
      limit $2
    )
  ) as waiting
) as counted
where counted.count > 0
