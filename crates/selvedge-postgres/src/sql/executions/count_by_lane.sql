-- Counts the waiting executions of lanes, each up to $4. The classes and pools (negative) of lane n are the elements $2[n] to $3[n] of $1.
-- Locks: none. Index: executions_claim or executions_claim_pool, once per class or pool until the lane has reached $4.
select counted.count
from unnest($2::integer[], $3::integer[]) with ordinality as lane (first, last, number)
cross join lateral (
  select count(*)
  from (
    select
    from unnest(($1::integer[])[lane.first:lane.last]) as asked (range)
    cross join lateral (
      (
        select
        from executions
        where asked.range > 0
          and executions.class = asked.range
          and state = {waiting}
        limit $4
      )
      union all
      (
        select
        from executions
        where asked.range < 0
          and executions.pool = asked.range
          and executions.pool is not null
          and state = {waiting}
        limit $4
      )
    ) as of_range
    limit $4
  ) as waiting
) as counted
order by lane.number
