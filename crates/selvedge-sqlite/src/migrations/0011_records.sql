-- Records of executions: signals, steps and waitpoints, each numbered from 1 in its execution; and the keys that sign the
-- tokens of waitpoints.

-- Effects of a delivery: 0 buffered, 1 counted, 2 resumed. The payload comes last, so that reading the rest of a row
-- never reads it.
create table signals (
  execution blob not null check (length(execution) = 16),
  number integer not null check (number > 0),
  name text not null,
  source text not null,
  waitpoint blob check (length(waitpoint) = 16),
  waitpoint_name text,
  key text,
  digest integer not null,
  at integer not null,
  effect integer not null,
  taken integer,
  payload blob,
  primary key (execution, number),
  constraint waitpoint_has_name check ((waitpoint is null) = (waitpoint_name is null))
) strict;

create unique index signals_key
on signals (execution, key)
where key is not null;

-- Signals for a later wait: however many were taken before, only untaken ones are read.
create index signals_untaken
on signals (execution, number)
where taken is null;

-- Kinds: 0 step, 1 sleep, 2 wait, 3 spawn, 4 join, 5 race.
create table steps (
  execution blob not null check (length(execution) = 16),
  number integer not null check (number > 0),
  name text not null,
  kind integer not null,
  attempt integer not null,
  started_at integer not null,
  recorded_at integer,
  result blob,
  primary key (execution, number)
) strict;

create unique index steps_name
on steps (execution, name);

-- States: 0 open, 1 delivered, 2 expired, 3 revoked. `signal` is the number of the delivered signal, `effect` its effect.
create table waitpoints (
  execution blob not null check (length(execution) = 16),
  number integer not null check (number > 0),
  id blob not null unique check (length(id) = 16),
  namespace integer not null,
  name text not null,
  source text not null,
  key integer not null,
  created_at integer not null,
  expires_at integer,
  state integer not null,
  signal integer,
  effect integer,
  primary key (execution, number),
  constraint delivered_has_signal check ((state = 1) = (signal is not null)),
  constraint delivered_has_effect check ((state = 1) = (effect is not null))
) strict, without rowid;

-- Token keys without their secrets, which are derived from the root secret.
create table token_keys (
  id integer primary key,
  fingerprint integer not null,
  created_at integer not null,
  retires_at integer
) strict;

-- The root secret, if it is not configured.
create table kept_secret (
  single integer primary key check (single = 1),
  secret blob not null
) strict;
