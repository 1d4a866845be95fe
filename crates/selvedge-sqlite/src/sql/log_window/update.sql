-- Records the highest number that was dropped from the log.
-- Index: the primary key of log_window.
-- Parameters: ?1 number, ?2 the time of that entry
update log_window
set
  dropped = ?1,
  at = max(at, ?2)
where single = 1
