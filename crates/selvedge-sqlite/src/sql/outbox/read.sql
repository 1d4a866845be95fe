-- Returns an outbox row.
-- Index: the primary key of outbox.
-- Parameters: ?1 id, ?2 kind
select {outbox}
from outbox
where id = ?1
  and kind = ?2
