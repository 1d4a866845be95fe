-- Deletes up to $2 entries of days before the window ($1 milliseconds) from the default partition, records the highest
-- deleted number in log_window and returns the number of deleted entries.
-- Locks: the entries that no other transaction has locked; log_window. Index: log_default_at, log_window_pkey.
with old as materialized (
  select ctid
  from log_default
  where at < (
    select date_trunc('day', {now} - $1::bigint * interval '1 millisecond', 'UTC')
  )
  order by at
  limit $2
  for update skip locked
),
gone as (
  delete from log_default
  using old
  where log_default.ctid = old.ctid
  returning number
)
update log_window
set dropped = greatest(dropped, (select max(number) from gone))
where single
  and exists (select from gone)
returning (select count(*) from gone)
