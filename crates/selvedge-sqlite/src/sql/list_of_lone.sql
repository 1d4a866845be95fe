-- The place of a lone execution, which is its own flow, in a list of that flow. Expects the unique index on id.
-- Parameters as in list_all, and ?8 the flow.
select submitted_at, id
from executions
where id = ?8
  and flow is null
  and namespace = ?1
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
limit ?5
