-- Returns the entries of a page of a namespace's executions in the states $7, newest first. Waiting, active and completed executions
-- change too often, or are too many, to have entries in this index.
-- Locks: none. Index: executions_list_by_state, backwards, once per state.
select listed.*
from unnest($7::smallint[]) as asked (state)
cross join lateral (
  select {listed}
  from executions
  where namespace = $1
    and executions.state = asked.state
    and executions.state not in ({waiting}, {active}, {completed})
    and (submitted_at, id) < ($2, $3)
    and submitted_at >= $4
    and submitted_at < $5
    and ($6::integer[] is null or class in (select unnest($6)))
  order by submitted_at desc, id desc
  limit $8
) as listed
order by listed.submitted_at desc, listed.id desc
limit $8
