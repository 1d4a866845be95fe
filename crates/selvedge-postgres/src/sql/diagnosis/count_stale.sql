-- Counts the rows of the outbox (of the kinds $1) and of the inbox that have waited for longer than $2 seconds, up to 1000 of each
-- kind, and returns the seconds that the oldest has waited. Of the inbox it looks at the first 1000 rows only. An index condition
-- cannot contain a volatile function, so the time is read once.
-- Locks: none. Index: outbox_waiting per kind, inbox_pending.
with now as materialized (
  select clock_timestamp() as at
),
outbox_rows as (
  select stale.at
  from unnest($1::smallint[]) as kinds (kind)
  cross join lateral (
    select outbox.at
    from outbox
    where outbox.kind = kinds.kind
      and outbox.at < (select at from now) - $2::bigint * interval '1 second'
    order by outbox.at
    limit 1000
  ) as stale
),
inbox_rows as (
  select first_rows.submitted_at as at
  from (
    select submitted_at
    from inbox
    where refused_at is null
    order by xid, number
    limit 1000
  ) as first_rows
  where first_rows.submitted_at < (select at from now) - $2::bigint * interval '1 second'
)
select 'outbox', count(*), extract(epoch from (select at from now) - min(at))::bigint
from outbox_rows
union all
select 'inbox', count(*), extract(epoch from (select at from now) - min(at))::bigint
from inbox_rows
