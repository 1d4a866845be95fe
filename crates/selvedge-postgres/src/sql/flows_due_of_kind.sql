-- What is to be done about flows, earliest first. Locks: nothing. Index: flows_due.
-- The time is asked for once: an index condition cannot hold a function whose value changes.
select id, due_at, namespace, tags
from flows
where due_kind = $1
  and due_at is not null
  and due_at <= (select clock_timestamp())
  and (due_at, id) > ($2, $3)
order by due_at, id
limit $4
