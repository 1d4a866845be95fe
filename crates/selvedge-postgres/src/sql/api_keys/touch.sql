-- Records a use of API keys.
-- Locks: the keys, by id. Index: api_keys_pkey.
with used as materialized (
  select id
  from api_keys
  where id = any($1)
  order by id
  for update
)
update api_keys
set last_used_at = greatest(api_keys.last_used_at, {now})
where id = any(array(select id from used))
