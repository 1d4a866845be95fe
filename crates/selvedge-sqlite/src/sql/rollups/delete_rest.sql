-- Deletes up to ?2 rollups of a namespace.
-- Index: the primary key of rollups.
-- Parameters: ?1 the namespace, ?2 the limit
delete from rollups
where (namespace, minute_at, lane, server) in (
  select namespace, minute_at, lane, server
  from rollups
  where namespace = ?1
  limit ?2
)
