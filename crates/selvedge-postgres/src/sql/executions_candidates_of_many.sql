-- The first ready executions of several classes. First a look says how many of each class are among the first; then so
-- many of each class are locked, passing over those that somebody else has.
-- Locks: those executions. Index: class_priorities_pkey; executions_claim, once per class and priority, from its bound on.
with share as materialized (
  select first.class, count(*) as wanted
  from (
    select asked.class, ready.priority, ready.ready_order, ready.id
    from unnest($1::integer[]) as asked (class)
    cross join lateral (
      select seen.priority, seen.ready_order, seen.id
      from (
        select class, priority, {bound} as bound
        from class_priorities as pair
        where pair.class = asked.class
        order by priority desc
      ) as pair
      cross join lateral (
        select priority, ready_order, id
        from executions
        where executions.class = pair.class
          and executions.priority = pair.priority
          and state = 0
          and ready_order >= pair.bound
          and id <> all($6)
        order by ready_order, id
        limit $5
      ) as seen
      limit $5
    ) as ready
    order by ready.priority desc, ready.ready_order, ready.id
    limit $5
  ) as first
  group by first.class
)
select taken.*
from share
cross join lateral (
  select found.*
  from (
    select class, priority, {bound} as bound
    from class_priorities as pair
    where pair.class = share.class
    order by priority desc
  ) as pair
  cross join lateral (
    select {columns}, input
    from executions
    where executions.class = pair.class
      and executions.priority = pair.priority
      and state = 0
      and ready_order >= pair.bound
      and id <> all($6)
    order by ready_order, id
    limit share.wanted
    for no key update skip locked
  ) as found
  limit share.wanted
) as taken
