-- Returns all token keys, by id. They are few.
-- Locks: none. Index: token_keys_pkey.
select {token_key}
from token_keys
order by id
