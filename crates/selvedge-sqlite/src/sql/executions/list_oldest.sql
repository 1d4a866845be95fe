-- Returns the classes of a namespace's oldest executions.
-- Index: executions_list.
-- Parameters: ?1 namespace, ?2 the latest submitted_at, ?3 limit
select submitted_at, class
from executions indexed by executions_list
where namespace = ?1
  and submitted_at <= ?2
order by submitted_at, id
limit ?3
