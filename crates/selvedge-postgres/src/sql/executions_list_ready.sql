-- Newest first, of what is ready, where that is little. Locks: nothing. Index: executions_claim, once per class; then a sort.
select {shown}
from unnest($6::integer[]) as asked (class)
cross join lateral (
  select *
  from executions
  where executions.class = asked.class
    and state = 0
  -- Keeps the planner from walking everything in the order of submission.
  offset 0
) as executions
where namespace = $1
  and (submitted_at, id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($7::smallint[] is null or state = any($7))
order by submitted_at desc, id desc
limit $8
