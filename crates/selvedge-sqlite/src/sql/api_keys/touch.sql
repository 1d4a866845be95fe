-- Records a use of an API key.
-- Index: the primary key of api_keys.
-- Parameters: ?1 id, ?2 the time
update api_keys
set last_used_at = max(ifnull(last_used_at, 0), ?2)
where id = ?1
