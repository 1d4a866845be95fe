-- Returns a page of the frames of a stream from a number on, in order, without old best-effort frames.
-- Index: the primary key of frames.
-- Parameters: ?1 execution, ?2 attempt, ?3 number, ?4 the time up to which frames are old, ?5 limit
select number, kind, best_effort, at, data
from frames
where execution = ?1
  and attempt = ?2
  and number >= ?3
  and (best_effort = 0 or at > ?4)
order by number
limit ?5
