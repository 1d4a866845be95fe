-- Returns schedules by name.
-- Locks: none. Index: schedules_pkey, nested loop.
select {schedule}
from unnest($1::integer[], $2::text[]) as asked (namespace, name)
join schedules using (namespace, name)
