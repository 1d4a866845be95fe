-- Returns the matching positions among the newest {count_scan} executions of a namespace. For counts: it visits no more
-- entries however few match.
-- Index: executions_list.
-- Parameters: as in executions/list
select submitted_at, id, class, state, ended_at
from (
  select submitted_at, id, class, state, ended_at
  from executions indexed by executions_list
  where namespace = ?1
    and (submitted_at, id) < (?2, ?3)
    and submitted_at >= ?4
  order by submitted_at desc, id desc
  limit {count_scan}
)
where (?6 is null or class in (select value from json_each(?6)))
  and (?7 is null or state in (select value from json_each(?7)))
limit ?5
