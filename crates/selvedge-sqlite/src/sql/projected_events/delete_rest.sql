-- Deletes up to ?2 events of a namespace from the projection.
-- Index: projected_events_namespace.
-- Parameters: ?1 the namespace, ?2 the limit
delete from projected_events
where cursor in (
  select cursor
  from projected_events indexed by projected_events_namespace
  where namespace = ?1
  limit ?2
)
