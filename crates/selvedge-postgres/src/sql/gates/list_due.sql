-- Returns a page of the due gates, earliest first. An index condition cannot contain a volatile function, so the time
-- is read once in a subquery.
-- $4 restricts it to a namespace, if it is not null.
-- Locks: none. Index: gates_due.
select {gate}
from gates
where gates.due_at is not null
  and gates.due_at <= (select {now})
  and (gates.due_at, gates.id) > ($1, $2)
  and ($4::integer is null or gates.namespace = $4)
order by gates.due_at, gates.id
limit $3
