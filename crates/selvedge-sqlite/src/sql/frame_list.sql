-- Frames of a stream from a number on, in order, but for best-effort frames that are too old. Expects the primary key of frames.
-- ?1 execution, ?2 attempt, ?3 number, ?4 the time since which they are too old, ?5 limit
select number, kind, best_effort, at, data
from frames
where execution = ?1
  and attempt = ?2
  and number >= ?3
  and (best_effort = 0 or at > ?4)
order by number
limit ?5
