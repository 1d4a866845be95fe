-- Returns all token keys, by id. They are few.
-- Locks: none. Index: token_keys_pkey.
select id, fingerprint, created_at, retires_at
from token_keys
order by id
