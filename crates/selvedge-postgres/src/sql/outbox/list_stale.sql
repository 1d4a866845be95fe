-- Returns a page of the outbox rows of kind $1 that are at least $2 milliseconds old, oldest first. An index condition
-- cannot contain a volatile function, so the time is read once in a subquery.
-- $6 and $7 restrict it to a namespace and to tags that contain a text, if they are not null.
-- Locks: none. Index: outbox_waiting.
select {outbox}
from outbox
where kind = $1
  and at <= (select {now}) - $2::bigint * interval '1 millisecond'
  and (at, id) > ($3, $4)
  and ($6::integer is null or namespace = $6)
  and ($7::text is null or strpos(tags, $7) > 0)
order by at, id
limit $5
