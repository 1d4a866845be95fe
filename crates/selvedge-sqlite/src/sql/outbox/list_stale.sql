-- Returns a page of the outbox rows of one kind that are old enough, oldest first.
-- Index: outbox_waiting.
-- Parameters: ?1 kind, ?2 the time up to which rows are old enough, ?3 and ?4 the position (at, id) after which the
-- page begins, ?5 limit
select {outbox}
from outbox indexed by outbox_waiting
where kind = ?1
  and at <= ?2
  and (at, id) > (?3, ?4)
order by at, id
limit ?5
