-- Expects the primary key of token_keys.
-- ?1 id
delete from token_keys
where id = ?1
