-- Removes keys that have expired, earliest first. Expects the index keys_expires and the primary key of keys.
-- ?1 now, ?2 limit
delete from keys
where (namespace, scope, key) in (
  select namespace, scope, key
  from keys indexed by keys_expires
  where expires_at <= ?1
  order by expires_at
  limit ?2
)
