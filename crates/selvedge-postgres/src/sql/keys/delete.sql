-- Deletes keys: one given with a subject only if it stands for that subject, one given without only if it has
-- expired.
-- Locks: the keys. Index: keys_pkey.
delete from keys
using unnest($1::integer[], $2::smallint[], $3::text[], $4::uuid[]) as old (namespace, scope, key, subject)
where keys.namespace = old.namespace
  and keys.scope = old.scope
  and keys.key = old.key
  and (
    keys.subject = old.subject
    or (old.subject is null and keys.expires_at < {now})
  )
