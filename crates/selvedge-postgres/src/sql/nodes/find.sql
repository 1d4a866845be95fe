-- Returns the executions of nodes by flow and name.
-- Locks: none. Index: nodes_pkey.
select nodes.flow, nodes.name, nodes.execution
from unnest($1::uuid[], $2::text[]) as asked (flow, name)
join nodes on nodes.flow = asked.flow and nodes.name = asked.name
