-- Returns the positions of a page of the members of a flow, newest first.
-- Index: nodes_members, the unique index on executions.id.
-- Parameters: as in executions/list; ?8 the flow
select nodes.submitted_at, nodes.execution, class, state, ended_at
from nodes indexed by nodes_members
cross join executions on executions.id = nodes.execution
where nodes.flow = ?8
  and (nodes.submitted_at, nodes.execution) < (?2, ?3)
  and nodes.submitted_at >= ?4
  and namespace = ?1
  and (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
order by nodes.submitted_at desc, nodes.execution desc
limit ?5
