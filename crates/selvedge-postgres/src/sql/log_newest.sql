-- The newest number, and those just before it, to see whether one is missing; with up to which number the log was dropped, as
-- in log_after. The newest first. Index: log_window_pkey, log_number in every partition, merged.
select page.number, log_window.dropped
from log_window
left join lateral (
  select number
  from log
  where number > log_window.dropped
  order by number desc
  limit 1000
) as page on true
where log_window.single
