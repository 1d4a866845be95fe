-- Returns a page of the due schedules, earliest first, each with the time. An index condition cannot contain a volatile
-- function, so the time is read once in a subquery.
-- $5 restricts it to a namespace, if it is not null.
-- Locks: none. Index: schedules_due.
select {schedule}
from schedules
where schedules.due_at is not null
  and schedules.due_at <= $6
  and (schedules.due_at, schedules.namespace, schedules.name) > ($1, $2, $3)
  and ($5::integer is null or schedules.namespace = $5)
order by schedules.due_at, schedules.namespace, schedules.name
limit $4
