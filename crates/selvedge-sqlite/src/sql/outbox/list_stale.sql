-- Returns a page of the outbox rows of one kind that are old enough, oldest first.
-- Index: outbox_waiting.
-- Parameters: ?1 kind, ?2 the time up to which rows are old enough, ?3 and ?4 the position (at, id) after which the
-- page begins, ?5 limit, ?6 the namespace or null, ?7 a text that the tags contain or null
select {outbox}
from outbox indexed by outbox_waiting
where kind = ?1
  and at <= ?2
  and (at, id) > (?3, ?4)
  and (?6 is null or namespace = ?6)
  and (?7 is null or instr(tags, ?7) > 0)
order by at, id
limit ?5
