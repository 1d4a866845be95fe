-- Returns the earliest due time of one kind.
-- Index: executions_due.
-- Parameters: ?1 kind
select min(due_at)
from executions indexed by executions_due
where due_kind = ?1
  and due_at is not null
