-- Deletes a node.
-- Index: the primary key of nodes.
-- Parameters: ?1 flow, ?2 name
delete from nodes
where flow = ?1
  and name = ?2
