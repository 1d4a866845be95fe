-- A page of the log, with up to which number it was dropped, in one snapshot: at least one row, whose number is null where
-- there is no entry. In the order of numbers. Index: log_window_pkey, log_number in every partition, merged.
select page.number, page.body, log_window.dropped
from log_window
left join lateral (
  select number, body
  from log
  where number > greatest($1, log_window.dropped)
  order by number
  limit $2
) as page on true
where log_window.single
