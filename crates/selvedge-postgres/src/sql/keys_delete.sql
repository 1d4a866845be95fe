-- Deletes keys: one with an execution only where it stands for that one, one without only where it has expired.
-- Index: keys_pkey.
delete from keys
using unnest($1::integer[], $2::smallint[], $3::text[], $4::uuid[]) as old (namespace, scope, key, execution)
where keys.namespace = old.namespace
  and keys.scope = old.scope
  and keys.key = old.key
  and (
    keys.execution = old.execution
    or (old.execution is null and keys.expires_at < clock_timestamp())
  )
