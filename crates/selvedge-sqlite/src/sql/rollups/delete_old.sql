-- Deletes rollups of minutes that began before a time, oldest first.
-- Index: rollups_old, the primary key of rollups.
-- Parameters: ?1 the time, ?2 limit
delete from rollups
where (namespace, minute_at, lane, server) in (
  select namespace, minute_at, lane, server
  from rollups indexed by rollups_old
  where minute_at < ?1
  order by minute_at
  limit ?2
)
