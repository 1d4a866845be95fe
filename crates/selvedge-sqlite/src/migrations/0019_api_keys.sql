-- API keys. The table has the SHA-256 of a key and never the key itself. Keys are few and are never deleted: a revoked key
-- stays, so that the actor of old events can be looked up.

create table api_keys (
  -- A UUID of version 7: ordered by the time of creation.
  id blob primary key,
  digest blob not null unique check (length(digest) = 32),
  name text not null,
  role text not null,
  -- The names of the namespaces, a JSON list; '["*"]' for every namespace.
  namespaces text not null,
  created_at integer not null,
  expires_at integer,
  -- Written at most once a minute.
  last_used_at integer,
  revoked_at integer
) strict, without rowid;

-- The retention of executions that give none, and the weight among the namespaces of a worker's key.
alter table namespaces add column retention_ms integer check (retention_ms >= 0);
alter table namespaces add column weight integer check (weight > 0);
