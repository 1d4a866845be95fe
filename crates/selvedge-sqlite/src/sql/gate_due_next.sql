-- When the next gate is to be looked at. Expects the index gates_due.
select min(due_at)
from gates indexed by gates_due
where due_at is not null
