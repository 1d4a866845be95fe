-- Members of a flow in the order of their submission. Reads the index nodes_members and no row.
-- ?1 flow, ?2 how many, ?3 after how many
select execution
from nodes indexed by nodes_members
where flow = ?1
order by submitted_at, execution
limit ?2 offset ?3
