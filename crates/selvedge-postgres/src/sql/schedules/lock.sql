-- Locks schedules by name.
-- Locks: the schedules, by namespace and name. Index: schedules_pkey, nested loop.
with asked as materialized (
  select namespace, name
  from unnest($1::integer[], $2::text[]) as asked (namespace, name)
)
select {schedule}
from asked
join schedules using (namespace, name)
order by schedules.namespace, schedules.name
for update of schedules
