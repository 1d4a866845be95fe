-- Returns outbox rows by name.
-- Locks: the rows, in order of id and kind. Index: outbox_pkey.
select {outbox}
from unnest($1::uuid[], $2::smallint[]) as asked (id, kind)
join outbox on outbox.id = asked.id and outbox.kind = asked.kind
order by outbox.id, outbox.kind
for update of outbox
