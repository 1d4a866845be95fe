-- Deletes token keys by id.
-- Locks: the keys. Index: token_keys_pkey.
delete from token_keys
where id = any($1)
