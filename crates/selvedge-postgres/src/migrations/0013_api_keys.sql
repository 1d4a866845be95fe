-- API keys. The table has the SHA-256 of a key and never the key itself. Keys are few and are never deleted: a revoked key
-- stays, so that the actor of old events can be looked up.

create table api_keys (
  -- A UUID of version 7: ordered by the time of creation.
  id uuid primary key,
  digest bytea not null unique,
  name text not null,
  role text not null,
  -- The names of the namespaces, a JSON list; '["*"]' for every namespace.
  namespaces text not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  -- Written at most once a minute.
  last_used_at timestamptz,
  revoked_at timestamptz,
  constraint digest_is_sha256 check (octet_length(digest) = 32)
);

-- The retention of executions that give none, and the weight among the namespaces of a worker's key.
alter table namespaces
  add column retention_ms bigint check (retention_ms >= 0),
  add column weight integer check (weight > 0);
