-- Returns the positions of a page of a namespace's flows, newest first.
-- Index: flows_list.
-- Parameters: ?1 namespace, ?2 and ?3 the position (submitted_at, id) below which the page begins, ?4 the earliest
-- submitted_at, ?5 limit, ?6 name or null for any, ?7 states as a JSON array, or null for any
select submitted_at, id
from flows indexed by flows_list
where namespace = ?1
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or name = ?6)
  and (?7 is null or state in (select value from json_each(?7)))
order by submitted_at desc, id desc
limit ?5
