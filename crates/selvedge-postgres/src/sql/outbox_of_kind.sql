-- What has waited for a while, oldest first. Locks: nothing. Index: outbox_waiting.
-- The time is asked for once: an index condition cannot hold a function whose value changes.
select {outbox}
from outbox
where kind = $1
  and at <= (select clock_timestamp()) - $2::bigint * interval '1 millisecond'
  and (at, id) > ($3, $4)
order by at, id
limit $5
