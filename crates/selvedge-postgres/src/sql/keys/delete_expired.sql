-- Deletes up to $1 expired keys, earliest first. An index condition cannot contain a volatile function, so the time is
-- read once in a subquery.
-- Locks: the keys that no other transaction has locked. Index: keys_expired, keys_pkey.
delete from keys
where (namespace, scope, key) in (
  select namespace, scope, key
  from keys
  where expires_at < (select {now})
  order by expires_at
  limit $1
  for update skip locked
)
