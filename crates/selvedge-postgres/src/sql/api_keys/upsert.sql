-- Inserts API keys, or revokes them and replaces their namespaces. Nothing else of a key changes.
-- Locks: the keys, in the order of the array. Index: api_keys_pkey.
insert into api_keys ({api_key})
select *
from unnest({api_key_types})
on conflict (id) do update
set revoked_at = excluded.revoked_at,
  namespaces = excluded.namespaces
