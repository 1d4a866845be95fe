-- The parts of a gate, in the order of their numbers. Locks: nothing. Index: gates_parts.
select {gate}
from gates
where gates.namespace = $1
  and gates.kind = $2
  and gates.name = $3
  and gates.part is not null
order by gates.id
limit $4
