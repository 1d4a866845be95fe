-- Notes that the best-effort frames of a stream with smaller numbers were dropped. Expects the primary key of streams.
-- ?1 execution, ?2 attempt, ?3 the number
update streams
set best_effort_from = max(best_effort_from, ?3)
where execution = ?1
  and attempt = ?2
