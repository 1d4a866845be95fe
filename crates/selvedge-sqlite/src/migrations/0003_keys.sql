-- Keys chosen by callers. Scopes: 1 idempotency, 2 uniqueness, 3 one call. A key of scope 3 expires; others are deleted
-- with their execution.

create table keys (
  namespace integer not null,
  scope integer not null,
  key text not null,
  execution blob check (length(execution) = 16),
  digest integer not null,
  answer blob not null,
  expires_at integer,
  primary key (namespace, scope, key)
) strict, without rowid;

create index keys_expires
on keys (expires_at)
where expires_at is not null;
