-- Frames of a stream from a number on, in order, but for best-effort frames that are too old. Locks: nothing.
-- Index: frames_pkey.
select number, kind, best_effort, at, data
from frames
where execution = $1
  and attempt = $2
  and number >= $3
  and not (best_effort and at <= (select clock_timestamp() - $4::bigint * interval '1 millisecond'))
order by number
limit $5
