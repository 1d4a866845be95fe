-- Returns a page of the schedules of a namespace, by name.
-- Index: the primary key of schedules.
-- Parameters: ?1 namespace, ?2 the name after which it begins, ?3 limit
select {schedule}
from schedules
where namespace = ?1
  and name > ?2
order by name
limit ?3
