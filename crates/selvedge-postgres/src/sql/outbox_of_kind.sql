-- What has waited for a while, oldest first. Locks: nothing. Index: outbox_waiting.
select {outbox}
from outbox
where kind = $1
  and at <= clock_timestamp() - $2::bigint * interval '1 millisecond'
  and (at, id) > ($3, $4)
order by at, id
limit $5
