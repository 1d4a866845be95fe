-- Returns a page of a namespace's waitpoints with one source in one state, newest first.
-- Index: waitpoints_by_source, the primary key of waitpoints.
-- Parameters: ?1 namespace, ?2 state, ?3 created_at, ?4 id, ?5 limit, ?6 source
select {waitpoint}
from waitpoints indexed by waitpoints_by_source
where namespace = ?1
  and source = ?6
  and state = ?2
  and (created_at, id) < (?3, ?4)
order by created_at desc, id desc
limit ?5
