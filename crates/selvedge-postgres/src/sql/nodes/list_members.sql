-- Returns members of flows in order of submission, for each requested page, with the number of the page (from 1).
-- Locks: none. Index: nodes_in_order, once per page, then executions_pkey.
select {columns}, page.number
from unnest($1::uuid[], $2::bigint[], $3::bigint[]) with ordinality as page (wanted, skipped, most, number)
cross join lateral (
  select nodes.execution
  from nodes
  where nodes.flow = page.wanted
  order by nodes.submitted_at, nodes.execution
  offset page.skipped
  limit page.most
) as member
join executions on executions.id = member.execution
