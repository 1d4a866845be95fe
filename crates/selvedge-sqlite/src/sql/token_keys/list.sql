-- Returns all token keys, by id. They are few.
-- Index: the primary key of token_keys.
select {token_key}
from token_keys
order by id
