-- Returns keys by name.
-- Locks: none. Index: keys_pkey.
select {key}
from unnest($1::integer[], $2::smallint[], $3::text[]) as asked (namespace, scope, key)
join keys on keys.namespace = asked.namespace and keys.scope = asked.scope and keys.key = asked.key
