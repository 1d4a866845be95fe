-- Returns the positions of a page of a namespace's executions with a tag, newest first.
-- Index: the primary key of tags, the unique index on executions.id.
-- Parameters: as in executions/list; ?8 the flow, or null for any; ?9 the tag
select tags.submitted_at, tags.execution, class, state, ended_at
from tags
cross join executions on executions.id = tags.execution
where tags.namespace = ?1
  and tags.tag = ?9
  and (tags.submitted_at, tags.execution) < (?2, ?3)
  and tags.submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
  and (?8 is null or flow = ?8 or (flow is null and executions.id = ?8))
order by tags.submitted_at desc, tags.execution desc
limit ?5
