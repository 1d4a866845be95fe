-- Gates that are to be looked at, earliest first; the reader stops when it has enough. Expects the index gates_due.
-- ?1 now, ?2 and ?3 the place (due_at, id) after which to begin
select {gate}
from gates indexed by gates_due
where due_at <= ?1
  and (due_at, id) > (?2, ?3)
order by due_at, id
