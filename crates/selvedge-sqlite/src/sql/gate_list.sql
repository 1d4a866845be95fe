-- The configured gates of one kind in a namespace, by name. Expects the index gates_configured.
-- ?1 namespace, ?2 kind, ?3 the name after which to begin, ?4 limit
select {gate}
from gates indexed by gates_configured
where config is not null
  and namespace = ?1
  and kind = ?2
  and name > ?3
order by name, id
limit ?4
