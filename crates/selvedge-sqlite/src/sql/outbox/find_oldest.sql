-- Returns the time of the oldest outbox row of one kind.
-- Index: outbox_waiting.
-- Parameters: ?1 kind
select min(at)
from outbox indexed by outbox_waiting
where kind = ?1
