-- Returns the first waiting executions of some classes, by rank: a limit for each request, which names one or more
-- classes or pools (negative). If a request has several pairs of class and priority, a first search finds how many of its
-- executions are of each pair; then that many of each pair are locked, skipping those that another transaction has
-- locked. Each comes with the size of its input, and with the input up to a size of $8.
-- Locks: the returned executions. Index: class_priorities_pkey; executions_claim or executions_claim_pool, once or twice
-- per pair, from its bound on.
with pair as materialized (
  select pair.class, pair.priority, asked.ask, asked.most, {bound} as bound,
    count(*) over (partition by asked.ask) as pairs
  from unnest($1::integer[], $5::integer[], $6::bigint[]) as asked (class, ask, most)
  join class_priorities as pair on pair.class = asked.class
), share as materialized (
  select class, priority, bound, most as wanted
  from pair
  where pairs = 1
  union all
  select class, priority, bound, count(*)
  from (
    select pair.class, pair.priority, pair.bound, pair.ask, pair.most,
      row_number() over (
        partition by pair.ask
        order by seen.ready_order - pair.priority * {ageing}, seen.id
      ) as place
    from pair
    cross join lateral (
      (
        select ready_order, id
        from executions
        where pair.class > 0
          and executions.class = pair.class
          and executions.claim_priority = pair.priority
          and state = {waiting}
          and ready_order >= pair.bound
          and id <> all($7)
        order by ready_order, id
        limit pair.most
      )
      union all
      (
        select ready_order, id
        from executions
        where pair.class < 0
          and executions.pool = pair.class
          and executions.pool is not null
          and executions.claim_priority = pair.priority
          and state = {waiting}
          and ready_order >= pair.bound
          and id <> all($7)
        order by ready_order, id
        limit pair.most
      )
    ) as seen
    where pair.pairs > 1
  ) as first
  where place <= most
  group by ask, class, priority, bound
)
select taken.*
from share
cross join lateral (
  select {columns}, octet_length(input), case when octet_length(input) <= $8 then input end
  from executions
  where executions.class = share.class
    and executions.claim_priority = share.priority
    and state = {waiting}
    and ready_order >= share.bound
    and id <> all($7)
  order by ready_order, id
  limit share.wanted
  for no key update skip locked
) as taken
where share.class > 0
union all
select taken.*
from share
cross join lateral (
  select {columns}, octet_length(input), case when octet_length(input) <= $8 then input end
  from executions
  where executions.pool = share.class
    and executions.pool is not null
    and executions.claim_priority = share.priority
    and state = {waiting}
    and ready_order >= share.bound
    and id <> all($7)
  order by ready_order, id
  limit share.wanted
  for no key update skip locked
) as taken
where share.class < 0
