-- What is to be done about flows, of one kind, earliest first. Expects the index flows_due.
-- ?1 kind, ?2 now, ?3 and ?4 the place (due_at, id) after which to begin, ?5 limit
select id, due_at, namespace, tags
from flows indexed by flows_due
where due_kind = ?1
  and due_at <= ?2
  and (due_at, id) > (?3, ?4)
order by due_at, id
limit ?5
