-- Returns a page of the log after a number, in order.
-- Index: the primary key of log.
-- Parameters: ?1 number, ?2 limit
select number, body, at
from log
where number > ?1
order by number
limit ?2
