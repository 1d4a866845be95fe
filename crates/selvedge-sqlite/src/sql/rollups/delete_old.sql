-- Deletes rollups of minutes that began before a time.
-- Index: the primary key of rollups, once per namespace and per rollup.
-- Parameters: ?1 the time, ?2 limit
delete from rollups
where (namespace, minute_at, lane, server) in (
  select old.namespace, old.minute_at, old.lane, old.server
  from namespaces
  cross join rollups as old
  where old.namespace = namespaces.id
    and old.minute_at < ?1
  limit ?2
)
