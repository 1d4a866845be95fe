-- Returns the positions of a page of a namespace's executions, newest first.
-- Index: executions_list.
-- Parameters: ?1 namespace, ?2 and ?3 the position (submitted_at, id) below which the page begins, ?4 the earliest
-- submitted_at, ?5 limit, ?6 classes and ?7 states as JSON arrays, or null for any
select submitted_at, id, class, state, ended_at
from executions indexed by executions_list
where namespace = ?1
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
order by submitted_at desc, id desc
limit ?5
