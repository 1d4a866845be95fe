-- Deletes up to ?2 keys of a namespace.
-- Index: the primary key of keys.
-- Parameters: ?1 the namespace, ?2 the limit
delete from keys
where (namespace, scope, key) in (
  select namespace, scope, key
  from keys
  where namespace = ?1
  limit ?2
)
