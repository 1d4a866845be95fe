-- Deletes up to ?2 gates of a namespace.
-- Index: the primary key of gates, scanned.
-- Parameters: ?1 the namespace, ?2 the limit
delete from gates
where id in (
  select id
  from gates
  where namespace = ?1
  limit ?2
)
