-- Returns a page of a namespace's waitpoints with the source $6 in the states $2, newest first.
-- Locks: none. Index: waitpoints_by_source, backwards, once per state.
select listed.*
from unnest($2::smallint[]) as asked (state)
cross join lateral (
  select {waitpoint}
  from waitpoints
  where namespace = $1
    and source = $6
    and waitpoints.state = asked.state
    and (created_at, id) < ($3, $4)
  order by created_at desc, id desc
  limit $5
) as listed
order by listed.created_at desc, listed.id desc
limit $5
