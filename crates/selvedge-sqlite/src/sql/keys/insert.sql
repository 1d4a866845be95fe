-- Inserts a key, unless it exists.
-- Index: the primary key of keys.
-- Parameters: ?1 namespace, ?2 scope, ?3 key, ?4 subject, ?5 digest, ?6 answer, ?7 expires_at
insert into keys (namespace, scope, key, {key})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict do nothing
