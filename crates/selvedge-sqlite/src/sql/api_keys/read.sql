-- Returns an API key.
-- Index: the primary key of api_keys.
-- Parameters: ?1 id
select {api_key}
from api_keys
where id = ?1
