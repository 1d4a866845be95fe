-- Returns a page of the executions whose due time of kind $1 has passed, earliest first. An index condition cannot
-- contain a volatile function, so the time is read once in a subquery.
-- $5 and $6 restrict it to a namespace and to tags that contain a text, if they are not null.
-- Locks: none. Index: executions_due.
select id, due_at, namespace, tags
from executions
where due_kind = $1
  and due_at is not null
  and due_at <= (select {now})
  and (due_at, id) > ($2, $3)
  and ($5::integer is null or namespace = $5)
  and ($6::text is null or strpos(tags, $6) > 0)
order by due_at, id
limit $4
