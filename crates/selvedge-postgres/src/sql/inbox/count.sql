-- Counts the rows of the inbox that wait to be taken in and those that were refused, up to $2 of each, and returns the time of
-- the first that waits. $1 restricts it to a namespace, if it is not null. Rows of transactions that the snapshot $3 contains are
-- known not to wait.
-- Locks: none. Index: inbox_pending twice, inbox_refused.
with waiting as materialized (
  (
    select submitted_at
    from inbox
    where refused_at is null
      and xid = any(array(select pg_snapshot_xip($3::text::pg_snapshot)))
      and ($1::text is null or namespace = $1)
    limit $2
  )
  union all
  (
    select submitted_at
    from inbox
    where refused_at is null
      and xid >= pg_snapshot_xmax($3::text::pg_snapshot)
      and ($1::text is null or namespace = $1)
    order by xid, number
    limit $2
  )
), refused as materialized (
  select 1
  from inbox
  where refused_at is not null
    and ($1::text is null or namespace = $1)
  limit $2
)
select
  least((select count(*) from waiting), $2),
  (select min(submitted_at) from waiting),
  (select count(*) from refused)
