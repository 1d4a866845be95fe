-- Returns a key.
-- Index: the primary key of keys.
-- Parameters: ?1 namespace, ?2 scope, ?3 key
select {key}
from keys
where namespace = ?1
  and scope = ?2
  and key = ?3
