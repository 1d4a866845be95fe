-- Deletes up to $2 rollups of minutes that began more than $1 milliseconds ago, the oldest of each namespace first.
-- Locks: the rollups that no other transaction has locked. Index: namespaces_pkey; rollups_pkey, once per namespace and per rollup.
delete from rollups
where (namespace, minute_at, lane, server) in (
  select old.*
  from namespaces
  cross join lateral (
    select namespace, minute_at, lane, server
    from rollups
    where namespace = namespaces.id
      and minute_at < (select {now} - $1::bigint * interval '1 millisecond')
    order by minute_at, lane, server
    limit $2
    for update skip locked
  ) as old
  limit $2
)
