-- The first ready executions of several classes. First a look says how many of each class are among the first; then so
-- many of each class are locked, passing over those that somebody else has.
-- Locks: those executions. Index: executions_claim, once per class.
with share as materialized (
  select first.class, count(*) as wanted
  from (
    select asked.class, ready.priority, ready.ready_order, ready.id
    from unnest($1::integer[]) as asked (class)
    cross join lateral (
      select priority, ready_order, id
      from executions
      where executions.class = asked.class
        and state = 0
        and id <> all($3)
      order by priority desc, ready_order, id
      limit $2
    ) as ready
    order by ready.priority desc, ready.ready_order, ready.id
    limit $2
  ) as first
  group by first.class
)
select taken.*
from share
cross join lateral (
  select {columns}, input
  from executions
  where executions.class = share.class
    and state = 0
    and id <> all($3)
  order by priority desc, ready_order, id
  limit share.wanted
  for no key update skip locked
) as taken
