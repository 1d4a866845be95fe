-- Expects the primary key of nodes.
-- ?1 flow, ?2 name
delete from nodes
where flow = ?1
  and name = ?2
