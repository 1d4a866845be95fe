-- Deletes the best-effort frames of a stream that have a smaller number. Starts where the last deletion ended, so the
-- cost does not depend on the length of the stream.
-- Index: the primary keys of frames and streams.
-- Parameters: ?1 execution, ?2 attempt, ?3 number
delete from frames
where execution = ?1
  and attempt = ?2
  and number >= ifnull((select best_effort_from from streams where execution = ?1 and attempt = ?2), 0)
  and number < ?3
  and best_effort = 1
