-- The newest number, and those just before it, to see whether one is missing. Index: log_pkey.
select number
from log
order by number desc
limit 1000
