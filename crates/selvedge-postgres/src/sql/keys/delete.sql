-- Deletes keys: one given with an execution only if it stands for that execution, one given without only if it has
-- expired.
-- Locks: the keys. Index: keys_pkey.
delete from keys
using unnest($1::integer[], $2::smallint[], $3::text[], $4::uuid[]) as old (namespace, scope, key, execution)
where keys.namespace = old.namespace
  and keys.scope = old.scope
  and keys.key = old.key
  and (
    keys.execution = old.execution
    or (old.execution is null and keys.expires_at < clock_timestamp())
  )
