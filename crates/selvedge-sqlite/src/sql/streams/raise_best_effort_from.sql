-- Records that the best-effort frames of a stream below a number are deleted.
-- Index: the primary key of streams.
-- Parameters: ?1 execution, ?2 attempt, ?3 number
update streams
set best_effort_from = max(best_effort_from, ?3)
where execution = ?1
  and attempt = ?2
