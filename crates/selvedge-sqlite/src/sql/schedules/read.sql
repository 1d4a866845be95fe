-- Returns a schedule.
-- Index: the primary key of schedules.
-- Parameters: ?1 namespace, ?2 name
select {schedule}
from schedules
where namespace = ?1
  and name = ?2
