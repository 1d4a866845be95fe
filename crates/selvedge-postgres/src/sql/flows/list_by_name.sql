-- Returns a page of a namespace's flows with the name $6 in the states $8, newest first.
-- Locks: none. Index: flows_list_by_name, backwards, once per state.
select listed.*
from unnest($8::smallint[]) as asked (state)
cross join lateral (
  select {flow}
  from flows
  where (flows.namespace::text || '/' || flows.name) = ($1::integer::text || '/' || $6::text)
    and flows.name is not null
    and flows.state = asked.state
    and (submitted_at, id) < ($2, $3)
    and submitted_at >= $4
    and submitted_at < $5
  order by submitted_at desc, id desc
  limit $7
) as listed
order by listed.submitted_at desc, listed.id desc
limit $7
