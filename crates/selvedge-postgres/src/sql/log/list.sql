-- Returns a page of the log after number $1, in order, each row with the highest number that was dropped from the log.
-- Both are read in one snapshot. Without entries there is one row, whose number is null. The page has at most $2 entries
-- and ends with the one at which the bodies behind the first reach $3 bytes; sizes are known without reading the bodies.
-- Locks: none. Index: log_window_pkey; log_number in every partition, merged.
select page.number, page.body, log_window.dropped, page.at
from log_window
left join lateral (
  select number, body, at
  from (
    select
      number,
      body,
      at,
      sum(octet_length(body)) over entries_before
        - octet_length(body)
        - first_value(octet_length(body)) over entries_before as bytes_before
    from log
    where number > greatest($1, log_window.dropped)
    window entries_before as (order by number rows unbounded preceding)
    order by number
    limit $2
  ) as first_entries
  where bytes_before < $3
) as page on true
where log_window.single
