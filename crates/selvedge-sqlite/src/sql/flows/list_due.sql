-- Returns a page of the flows that are due to be settled or deleted, earliest first.
-- Index: flows_due.
-- Parameters: ?1 kind, ?2 now, ?3 and ?4 the position (due_at, id) after which the page begins, ?5 limit, ?6 the
-- namespace or null, ?7 a text that the tags contain or null
select id, due_at, namespace, tags
from flows indexed by flows_due
where due_kind = ?1
  and due_at <= ?2
  and (due_at, id) > (?3, ?4)
  and (?6 is null or namespace = ?6)
  and (?7 is null or instr(tags, ?7) > 0)
order by due_at, id
limit ?5
