-- Returns the earliest due time of a schedule.
-- Index: schedules_due.
select min(due_at)
from schedules indexed by schedules_due
where due_at is not null
