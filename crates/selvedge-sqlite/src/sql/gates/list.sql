-- Returns a page of the configured gates of a kind in a namespace, by name.
-- Index: gates_configured.
-- Parameters: ?1 namespace, ?2 kind, ?3 the name after which the page begins, ?4 limit
select {gate}
from gates indexed by gates_configured
where config is not null
  and namespace = ?1
  and kind = ?2
  and name > ?3
order by name, id
limit ?4
