-- Returns the API key with a digest.
-- Index: the unique index on api_keys.digest.
-- Parameters: ?1 digest
select {api_key}
from api_keys
where digest = ?1
