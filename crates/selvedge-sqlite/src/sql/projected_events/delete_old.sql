-- Deletes events of the projection whose entries were dropped from the log, oldest first. A cursor begins with a version digit
-- and the number of its entry in hexadecimal.
-- Index: the primary keys of projected_events and log_window.
-- Parameters: ?1 the limit
delete from projected_events
where cursor in (
  select cursor
  from projected_events
  where cursor < (select printf('2%016x', dropped + 1) from log_window where single = 1)
  order by cursor
  limit ?1
)
