-- Returns the first frames of a range of a stream, in order, without old best-effort frames.
-- Index: the primary key of frames.
-- Parameters: ?1 execution, ?2 attempt, ?3 and ?4 the range of numbers, without its end, ?5 the time up to which best-effort
-- frames are old, ?6 limit
select {frame}
from frames
where execution = ?1
  and attempt = ?2
  and number >= ?3
  and number < ?4
  and (best_effort = 0 or at > ?5)
order by number
limit ?6
