-- Places in a list of all flows, newest first. Expects the index flows_list.
-- ?1 namespace, ?2 and ?3 the place (submitted_at, id) below which to begin, ?4 the earliest submitted_at, ?5 limit,
-- ?6 name or null for any, ?7 states as a JSON array or null for any
select submitted_at, id
from flows indexed by flows_list
where namespace = ?1
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or name = ?6)
  and (?7 is null or state in (select value from json_each(?7)))
order by submitted_at desc, id desc
limit ?5
