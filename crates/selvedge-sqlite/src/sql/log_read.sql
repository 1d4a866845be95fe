-- Expects the primary key of log.
-- ?1 the number after which to begin, ?2 limit
select number, body
from log
where number > ?1
order by number
limit ?2
