-- Inserts an API key, or revokes it and replaces its namespaces. Nothing else of a key changes.
-- Index: the primary key of api_keys.
-- Parameters: ?1 to ?9 as {api_key}
insert into api_keys ({api_key})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
on conflict (id) do update
set revoked_at = excluded.revoked_at,
  namespaces = excluded.namespaces
