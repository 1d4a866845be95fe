-- Expects the primary key of outbox.
-- ?1 id, ?2 kind
select {outbox}
from outbox
where id = ?1
  and kind = ?2
