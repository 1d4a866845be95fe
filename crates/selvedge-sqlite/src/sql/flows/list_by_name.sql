-- Returns the positions of a page of a namespace's flows with a name in one state, newest first.
-- Index: flows_by_name.
-- Parameters: as in flows/list, but ?7 is one state
select submitted_at, id
from flows indexed by flows_by_name
where namespace = ?1
  and name = ?6
  and name is not null
  and state = ?7
  and (submitted_at, id) < (?2, ?3)
  and submitted_at >= ?4
order by submitted_at desc, id desc
limit ?5
