-- Index: keys_expired.
-- The time is asked for once: an index condition cannot hold a function whose value changes.
delete from keys
where (namespace, scope, key) in (
  select namespace, scope, key
  from keys
  where expires_at < (select clock_timestamp())
  order by expires_at
  limit $1
  for update skip locked
)
