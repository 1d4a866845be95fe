-- Inserts or replaces token keys. Of two concurrent rotations the one that retires a key earlier wins.
-- Locks: the keys, in the order of the array. Index: token_keys_pkey.
insert into token_keys ({token_key})
select *
from unnest({token_key_types})
on conflict (id) do update
set fingerprint = excluded.fingerprint,
  created_at = excluded.created_at,
  retires_at = least(token_keys.retires_at, excluded.retires_at)
