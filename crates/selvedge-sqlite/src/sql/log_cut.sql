-- Where the window begins, among the oldest entries: the number and time of the last one before the first that is young
-- enough. Times rise with the numbers. Expects the primary key of log.
-- ?1 the time of the oldest entry to be kept, ?2 how many entries to look at
with oldest (number, at) as (
  select number, at
  from log
  order by number
  limit ?2
)
select number, at
from oldest
where number < ifnull((select min(number) from oldest where at >= ?1), 9223372036854775807)
order by number desc
limit 1
