-- Returns, among the oldest entries, number and time of the last one that is older than the window. Times rise with the
-- numbers.
-- Index: the primary key of log.
-- Parameters: ?1 the time at which the window begins, ?2 how many entries to read
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
