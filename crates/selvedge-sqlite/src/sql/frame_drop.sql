-- Deletes best-effort frames of a stream with smaller numbers. Looks only from where the last drop ended, so it costs the same
-- however long the stream is. Expects the primary keys of frames and streams.
-- ?1 execution, ?2 attempt, ?3 the number before which they go
delete from frames
where execution = ?1
  and attempt = ?2
  and number >= ifnull((select best_effort_from from streams where execution = ?1 and attempt = ?2), 0)
  and number < ?3
  and best_effort = 1
