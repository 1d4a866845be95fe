-- The place of the first ready execution of each class and priority, from its bound on, whoever has it locked.
-- Index: class_priorities_pkey; executions_claim, once per pair.
select pair.class, pair.priority, pair.generation, first.ready_order
from unnest($1::integer[]) as asked (class)
join class_priorities as pair on pair.class = asked.class
left join lateral (
  select ready_order
  from executions
  where executions.class = pair.class
    and executions.priority = pair.priority
    and state = 0
    and ready_order >= {bound}
  order by ready_order, id
  limit 1
) as first on true
