-- Returns the positions of a page of a namespace's flows in one state, newest first.
-- Index: flows_by_state.
-- Parameters: as in flows/list, but ?7 is one state
select submitted_at, id
from flows indexed by flows_by_state
where namespace = ?1
  and state = ?7
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
  and (?6 is null or name = ?6)
order by submitted_at desc, id desc
limit ?5
