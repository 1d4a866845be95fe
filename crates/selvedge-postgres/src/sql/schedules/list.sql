-- Returns a page of the schedules of a namespace, by name.
-- Locks: none. Index: schedules_pkey.
select {schedule}
from schedules
where schedules.namespace = $1
  and schedules.name > $2
order by schedules.name
limit $3
