-- Returns the latest time that the file proves to have passed.
-- Index: the primary keys of log and log_window; reads all sessions, which are few.
select max(
  ifnull((select at from log order by number desc limit 1), 0),
  ifnull((select at from log_window where single = 1), 0),
  ifnull((select max(max(seen_at), ifnull(max(renewed_at), 0)) from sessions), 0)
)
