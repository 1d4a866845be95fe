-- Returns a page of the frames of a stream from number $3 on, in order, without best-effort frames older than $4
-- milliseconds.
-- Locks: none. Index: frames_pkey.
select number, kind, best_effort, at, data
from frames
where execution = $1
  and attempt = $2
  and number >= $3
  and not (best_effort and at <= (select clock_timestamp() - $4::bigint * interval '1 millisecond'))
order by number
limit $5
