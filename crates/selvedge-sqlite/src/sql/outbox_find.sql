-- Rows of the outbox of one kind that have waited for long, oldest first. Expects the index outbox_waiting.
-- ?1 kind, ?2 since when at the latest, ?3 and ?4 the place (at, id) after which to begin, ?5 limit
select {outbox}
from outbox indexed by outbox_waiting
where kind = ?1
  and at <= ?2
  and (at, id) > (?3, ?4)
order by at, id
limit ?5
