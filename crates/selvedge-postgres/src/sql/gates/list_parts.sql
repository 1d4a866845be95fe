-- Returns the parts of a gate, by id.
-- Locks: none. Index: gates_parts.
select {gate}
from gates
where gates.namespace = $1
  and gates.kind = $2
  and gates.name = $3
  and gates.part is not null
order by gates.id
limit $4
