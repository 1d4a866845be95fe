-- Returns a page of the API keys, newest first: those with ids smaller than the given one.
-- Locks: none. Index: api_keys_pkey.
select {api_key}
from api_keys
where id < $1
order by id desc
limit $2
