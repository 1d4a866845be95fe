-- Returns the entries of a page of a namespace's waiting executions, newest first, where they are few.
-- Locks: none. Index: executions_claim, once per class; then a sort.
select {listed}
from unnest($6::integer[]) as asked (class)
cross join lateral (
  select *
  from executions
  where executions.class = asked.class
    and state = {waiting}
  -- Keeps the planner from scanning all executions in the order of their submission.
  offset 0
) as executions
where namespace = $1
  and (submitted_at, id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($7::smallint[] is null or state = any($7))
order by submitted_at desc, id desc
limit $8
