-- Returns the earliest time at which a flow is due to be settled or deleted.
-- Index: flows_due.
-- Parameters: ?1 kind
select min(due_at)
from flows indexed by flows_due
where due_kind = ?1
  and due_at is not null
