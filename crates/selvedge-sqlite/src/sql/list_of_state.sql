-- Places in a list of one state other than success, newest first. Expects the index executions_by_state.
-- Parameters as in list_all, but ?7 is one state.
select submitted_at, id
from executions indexed by executions_by_state
where namespace = ?1
  and state = ?7
  and state <> 10
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
order by submitted_at desc, id desc
limit ?5
