-- Inserts a schedule, unless its name is taken.
-- Index: the primary key of schedules.
-- Parameters: ?1 to ?7 as {schedule}
insert into schedules ({schedule})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (namespace, name) do nothing
