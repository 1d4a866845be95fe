-- Returns a page of the configured gates of a kind, by name.
-- Locks: none. Index: gates_configured.
select {gate}
from gates
where gates.namespace = $1
  and gates.kind = $2
  and gates.config is not null
  and gates.name > $3
order by gates.name
limit $4
