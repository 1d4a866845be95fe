-- Returns the position of an execution if it belongs to no flow: such an execution counts as a flow of its own.
-- Index: the unique index on executions.id.
-- Parameters: as in executions/list; ?8 the flow
select submitted_at, id, class, state, ended_at
from executions
where id = ?8
  and flow is null
  and namespace = ?1
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
limit ?5
