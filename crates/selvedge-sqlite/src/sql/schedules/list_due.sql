-- Returns the due schedules after a position, earliest first; the caller stops reading when it has enough.
-- Index: schedules_due.
-- Parameters: ?1 now, ?2 to ?4 the position (due_at, namespace, name), ?5 the namespace or null
select {schedule}
from schedules indexed by schedules_due
where due_at <= ?1
  and (due_at, namespace, name) > (?2, ?3, ?4)
  and (?5 is null or namespace = ?5)
order by due_at, namespace, name
