-- Deletes keys; one that names an execution only where it stands for that one. Index: keys_pkey.
delete from keys
using unnest($1::integer[], $2::smallint[], $3::text[], $4::uuid[]) as old (namespace, scope, key, execution)
where keys.namespace = old.namespace
  and keys.scope = old.scope
  and keys.key = old.key
  and (old.execution is null or keys.execution = old.execution)
