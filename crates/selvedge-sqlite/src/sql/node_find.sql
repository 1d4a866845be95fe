-- Expects the primary key of nodes.
-- ?1 flow, ?2 name
select execution
from nodes
where flow = ?1
  and name = ?2
