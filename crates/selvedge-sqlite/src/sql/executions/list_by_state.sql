-- Returns the positions of a page of a namespace's executions in one state, newest first. Completed executions have no
-- entries in this index.
-- Index: executions_by_state.
-- Parameters: as in executions/list, but ?7 is one state
select submitted_at, id, class, state, ended_at
from executions indexed by executions_by_state
where namespace = ?1
  and state = ?7
  and state <> {completed}
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or class in (select value from json_each(?6)))
order by submitted_at desc, id desc
limit ?5
