-- Returns the execution of a node.
-- Index: the primary key of nodes.
-- Parameters: ?1 flow, ?2 name
select execution
from nodes
where flow = ?1
  and name = ?2
