-- Since when the oldest row of the outbox of one kind waits. Expects the index outbox_waiting.
-- ?1 kind
select min(at)
from outbox indexed by outbox_waiting
where kind = ?1
