-- Returns the first frames of a stream with numbers from $3 up to and without $4, in order. Without best-effort frames if $5,
-- else without those older than $6 milliseconds. An attempt has at most 1000 best-effort frames within that age, and older
-- ones are deleted, so the scan passes few frames that it does not return.
-- Locks: none. Index: frames_pkey.
select {frame}
from frames
where execution = $1
  and attempt = $2
  and number >= $3
  and number < $4
  and not (best_effort and ($5 or at <= (select {now} - $6::bigint * interval '1 millisecond')))
order by number
limit $7
