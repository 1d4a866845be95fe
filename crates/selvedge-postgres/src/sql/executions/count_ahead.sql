-- Counts the waiting executions of class $1 that claims take before the position ($2 priority, $3 ready_order, $4 id),
-- up to $5.
-- Locks: none. Index: class_priorities_pkey; executions_claim, once per priority.
select count(*)
from (
  select
  from class_priorities as pair
  cross join lateral (
    select
    from executions
    where executions.class = pair.class
      and executions.claim_priority = pair.priority
      and state = {waiting}
      and (ready_order, id) < ($3::timestamptz + (pair.priority::integer - $2::smallint) * {ageing}, $4::uuid)
    limit $5
  ) as before
  where pair.class = $1
  limit $5
) as ahead
