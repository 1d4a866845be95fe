-- Locks: the first ready executions of one class that nobody else has. From priority to priority, as the inner order says,
-- and only as far as the limit: so nothing is locked that is not taken.
-- Index: class_priorities_pkey; executions_claim, once per priority, from its bound on.
select taken.*
from (
  select priority, {bound} as bound
  from class_priorities as pair
  where class = $1
  order by priority desc
) as pair
cross join lateral (
  select {columns}, input
  from executions
  where executions.class = $1
    and executions.priority = pair.priority
    and state = 0
    and ready_order >= pair.bound
    and id <> all($6)
  order by ready_order, id
  limit $5
  for no key update skip locked
) as taken
limit $5
