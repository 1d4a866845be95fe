-- Index: log_pkey.
select number, body
from log
where number > $1
order by number
limit $2
