-- Returns the members of a flow in order of submission. Reads only the index.
-- Index: nodes_members.
-- Parameters: ?1 flow, ?2 limit, ?3 offset
select execution
from nodes indexed by nodes_members
where flow = ?1
order by submitted_at, execution
limit ?2 offset ?3
