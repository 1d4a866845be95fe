select id, fingerprint, created_at, retires_at
from token_keys
order by id
