-- Returns the days from today to $1 days ahead that have no partition: name, start and end. A day that already has
-- entries in the default partition is left out, because a partition can no longer be created for it.
-- Locks: none. Index: log_default_at.
select
  'log_' || to_char(day, 'YYYYMMDD'),
  to_char(day, 'YYYY-MM-DD') || ' 00:00+00',
  to_char(day + interval '1 day', 'YYYY-MM-DD') || ' 00:00+00'
from generate_series(
  date_trunc('day', {now} at time zone 'UTC'),
  date_trunc('day', {now} at time zone 'UTC') + $1::integer * interval '1 day',
  interval '1 day'
) as day
where to_regclass('log_' || to_char(day, 'YYYYMMDD')) is null
  and not exists (
    select
    from log_default
    where at >= day at time zone 'UTC'
      and at < (day + interval '1 day') at time zone 'UTC'
  )
order by day
