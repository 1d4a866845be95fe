-- Places in a list of one flow, newest first; a lone execution is its own flow. Expects the index executions_flow and the
-- unique index on id; sorts the flow.
-- Parameters as in list_all, and ?8 the flow.
select submitted_at, id
from executions
where place in (
    select place
    from executions indexed by executions_flow
    where flow = ?8
    union all
    select place
    from executions
    where id = ?8
      and flow is null
  )
  and namespace = ?1
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
order by submitted_at desc, id desc
limit ?5
