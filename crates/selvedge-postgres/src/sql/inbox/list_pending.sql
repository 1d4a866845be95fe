-- Returns the first rows of the inbox that wait to be taken in: by transaction, then by number. Only rows of transactions that
-- the snapshot $1 does not contain: all others are known to be taken in. $2 restricts it to a namespace, if it is not null. The
-- page starts after the row ($3, $4), and ends at $5 rows or $6 bytes; it has at least one row.
-- Locks: none. Index: inbox_pending twice, inbox_pkey once per row.
with found as materialized (
  (
    select xid, number, octet_length(body) as size
    from inbox
    where refused_at is null
      and xid = any(array(select pg_snapshot_xip($1::text::pg_snapshot)))
      and (xid, number) > ($3::text::xid8, $4::bigint)
      and ($2::text is null or namespace = $2)
    order by xid, number
    limit $5
  )
  union all
  (
    select xid, number, octet_length(body)
    from inbox
    where refused_at is null
      and xid >= pg_snapshot_xmax($1::text::pg_snapshot)
      and (xid, number) > ($3::text::xid8, $4::bigint)
      and ($2::text is null or namespace = $2)
    order by xid, number
    limit $5
  )
), sized as (
  select
    number,
    row_number() over page as place,
    sum(size) over page as total
  from found
  window page as (order by xid, number)
)
select {inbox}, body
from inbox
where number = any(array(
  select number
  from sized
  where place <= $5::bigint
    and (total <= $6::bigint or place = 1)
))
order by inbox.xid, inbox.number
