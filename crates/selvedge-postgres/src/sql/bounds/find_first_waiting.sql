-- Returns each class and priority of the classes and pools $1 with its generation and the ready_order of its first waiting
-- execution from the bound on, null if there is none. Rows that other transactions have locked count too.
-- Locks: none. Index: class_priorities_pkey; executions_claim or executions_claim_pool, once per class and priority.
select pair.class, pair.priority, pair.generation, first.ready_order
from unnest($1::integer[]) as asked (class)
join class_priorities as pair on pair.class = asked.class
left join lateral (
  (
    select ready_order
    from executions
    where pair.class > 0
      and executions.class = pair.class
      and executions.claim_priority = pair.priority
      and state = {waiting}
      and ready_order >= {bound}
    order by ready_order, id
    limit 1
  )
  union all
  (
    select ready_order
    from executions
    where pair.class < 0
      and executions.pool = pair.class
      and executions.pool is not null
      and executions.claim_priority = pair.priority
      and state = {waiting}
      and ready_order >= {bound}
    order by ready_order, id
    limit 1
  )
) as first on true
