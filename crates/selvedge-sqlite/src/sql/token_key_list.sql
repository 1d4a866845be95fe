-- All keys of tokens; there are few. Expects the primary key of token_keys.
select {token_key}
from token_keys
order by id
