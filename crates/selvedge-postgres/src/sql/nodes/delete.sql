-- Deletes nodes by flow and name.
-- Locks: the nodes. Index: nodes_pkey.
delete from nodes
using unnest($1::uuid[], $2::text[]) as old (flow, name)
where nodes.flow = old.flow
  and nodes.name = old.name
