-- Returns a page of a namespace's waitpoints in one state, newest first.
-- Index: waitpoints_by_state, the primary key of waitpoints.
-- Parameters: ?1 namespace, ?2 state, ?3 created_at, ?4 id, ?5 limit
select {waitpoint}
from waitpoints indexed by waitpoints_by_state
where namespace = ?1
  and state = ?2
  and (created_at, id) < (?3, ?4)
order by created_at desc, id desc
limit ?5
