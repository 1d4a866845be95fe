-- Returns the newest numbers of the log, highest first, to find gaps among them, each with the highest number that was
-- dropped, as in log/list.
-- Locks: none. Index: log_window_pkey; log_number in every partition, merged.
select page.number, log_window.dropped
from log_window
left join lateral (
  select number
  from log
  where number > log_window.dropped
  order by number desc
  limit {newest_limit}
) as page on true
where log_window.single
