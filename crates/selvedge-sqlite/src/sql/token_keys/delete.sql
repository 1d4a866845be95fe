-- Deletes a token key.
-- Index: the primary key of token_keys.
-- Parameters: ?1 id
delete from token_keys
where id = ?1
