-- Returns a page of the log after number $1, in order, each row with the highest number that was dropped from the log.
-- Both are read in one snapshot. Without entries there is one row, whose number is null.
-- Locks: none. Index: log_window_pkey; log_number in every partition, merged.
select page.number, page.body, log_window.dropped, page.at
from log_window
left join lateral (
  select number, body, at
  from log
  where number > greatest($1, log_window.dropped)
  order by number
  limit $2
) as page on true
where log_window.single
