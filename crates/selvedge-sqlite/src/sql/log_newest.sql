-- Expects the primary key of log.
select ifnull(max(number), 0)
from log
