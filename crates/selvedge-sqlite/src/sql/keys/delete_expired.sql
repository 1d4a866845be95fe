-- Deletes expired keys, earliest first.
-- Index: keys_expires, the primary key of keys.
-- Parameters: ?1 now, ?2 limit
delete from keys
where (namespace, scope, key) in (
  select namespace, scope, key
  from keys indexed by keys_expires
  where expires_at <= ?1
  order by expires_at
  limit ?2
)
