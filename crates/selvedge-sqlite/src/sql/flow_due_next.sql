-- When the next thing of one kind is to be done about a flow. Expects the index flows_due.
-- ?1 kind
select min(due_at)
from flows indexed by flows_due
where due_kind = ?1
  and due_at is not null
