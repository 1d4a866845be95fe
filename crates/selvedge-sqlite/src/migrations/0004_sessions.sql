-- Sessions of workers: one row, however many leases a session holds.

create table sessions (
  id integer primary key,
  namespace integer not null,
  worker text not null,
  instance text not null,
  ttl_ms integer not null check (ttl_ms > 0),
  lanes text not null,        -- a JSON array
  kinds text,                 -- a JSON array; null means any
  capabilities text not null, -- a JSON array
  registered_at integer not null,
  seen_at integer not null,
  renewed_at integer,
  draining integer not null check (draining in (0, 1))
) strict;

create index sessions_instance
on sessions (namespace, instance);
