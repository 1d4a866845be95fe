-- Locks API keys by id, for their revocation or the removal of a namespace.
-- Locks: the keys, by id. Index: api_keys_pkey.
select {api_key}
from api_keys
where id = any($1)
order by id
for update
