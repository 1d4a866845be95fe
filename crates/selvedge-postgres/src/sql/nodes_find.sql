-- Locks: nothing. Index: nodes_pkey.
select nodes.flow, nodes.name, nodes.execution
from unnest($1::uuid[], $2::text[]) as asked (flow, name)
join nodes on nodes.flow = asked.flow and nodes.name = asked.name
