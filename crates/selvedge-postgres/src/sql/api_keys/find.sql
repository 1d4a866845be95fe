-- Returns the API key with a digest, and the time.
-- Locks: none. Index: api_keys_digest_key.
select {api_key}, {now}
from api_keys
where digest = $1
