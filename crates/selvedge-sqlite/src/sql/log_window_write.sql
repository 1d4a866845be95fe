-- Notes up to which number the log was dropped. Expects the primary key of log_window.
-- ?1 the number, ?2 the time of that entry
update log_window
set
  dropped = ?1,
  at = max(at, ?2)
where single = 1
