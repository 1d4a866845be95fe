-- Returns the entries of a page of a namespace's waiting executions, newest first, where they are few. $6 are classes and
-- pools (negative).
-- Locks: none. Index: executions_claim or executions_claim_pool, once per class or pool; then a sort.
select {listed}
from unnest($6::integer[]) as asked (range)
cross join lateral (
  (
    select *
    from executions
    where asked.range > 0
      and executions.class = asked.range
      and state = {waiting}
    -- Keeps the planner from scanning all executions in the order of their submission.
    offset 0
  )
  union all
  (
    select *
    from executions
    where asked.range < 0
      and executions.pool = asked.range
      and executions.pool is not null
      and state = {waiting}
    offset 0
  )
) as executions
where namespace = $1
  and (submitted_at, id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($7::smallint[] is null or state = any($7))
order by submitted_at desc, id desc
limit $8
