-- Returns the due gates after a position, earliest first; the caller stops reading when it has enough.
-- Index: gates_due.
-- Parameters: ?1 now, ?2 and ?3 the position (due_at, id), ?4 the namespace or null
select {gate}
from gates indexed by gates_due
where due_at <= ?1
  and (due_at, id) > (?2, ?3)
  and (?4 is null or namespace = ?4)
order by due_at, id
