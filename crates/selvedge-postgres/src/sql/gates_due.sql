-- Gates that are to be looked at, earliest first. Locks: nothing. Index: gates_due.
-- The time is asked for once: an index condition cannot hold a function whose value changes.
select {gate}
from gates
where gates.due_at is not null
  and gates.due_at <= (select clock_timestamp())
  and (gates.due_at, gates.id) > ($1, $2)
order by gates.due_at, gates.id
limit $3
