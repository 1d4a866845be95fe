-- Returns the parts of a gate, by id.
-- Index: gates_parts.
-- Parameters: ?1 namespace, ?2 kind, ?3 name, ?4 limit
select {gate}
from gates indexed by gates_parts
where part is not null
  and namespace = ?1
  and kind = ?2
  and name = ?3
order by id
limit ?4
