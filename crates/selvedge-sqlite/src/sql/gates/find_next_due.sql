-- Returns the earliest due time of a gate.
-- Index: gates_due.
select min(due_at)
from gates indexed by gates_due
where due_at is not null
