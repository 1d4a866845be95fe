-- Deletes up to $2 rollups of minutes that began more than $1 milliseconds ago, oldest first.
-- Locks: the rollups that no other transaction has locked. Index: rollups_old, rollups_pkey.
delete from rollups
where (namespace, minute_at, lane, server) in (
  select namespace, minute_at, lane, server
  from rollups
  where minute_at < (select clock_timestamp() - $1::bigint * interval '1 millisecond')
  order by minute_at
  limit $2
  for update skip locked
)
