-- Executions from submission to their end, the sessions of workers, keys, and the event log.
--
-- States of an execution: 0 waiting, 1 delayed, 2 active, 10 completed, 11 failed, 12 cancelled, 13 expired, 14 skipped;
-- states from 10 on are terminal.

create table namespaces (
  id integer generated always as identity primary key,
  name text not null unique
);

-- Ids are assigned under an exclusive lock, so they become visible in order.
create table classes (
  id integer primary key,
  namespace integer not null references namespaces,
  lane text not null,
  kind text not null,
  capabilities text[] not null,
  unique (namespace, lane, kind, capabilities)
);

-- The priorities that waiting executions of a class have or had: a claim searches each. The generation changes when an
-- execution moves to a priority with an older position than others that become waiting then.
create table class_priorities (
  class integer not null,
  priority smallint not null,
  generation bigint not null,
  primary key (class, priority)
) with (fillfactor = 50);

-- Columns that never change come first, so that an update on the same page logs only the columns behind them.
create table executions (
  id uuid primary key,
  submitted_at timestamptz not null,
  namespace integer not null,
  class integer not null,
  partition smallint not null,
  flow uuid,
  spec text,
  input bytea not null,
  version integer not null,
  epoch integer not null,
  state smallint not null,
  priority smallint not null,
  due_kind smallint,
  ready_order timestamptz not null,
  due_at timestamptz,
  session bigint,
  until_at timestamptz,
  started_at timestamptz,
  ended_at timestamptz,
  lease_id uuid,
  tags text,
  detail text,
  history bytea not null,
  result bytea,
  constraint known_state check (state in (0, 1, 2, 10, 11, 12, 13, 14)),
  constraint counts check (version > 0 and epoch >= 0),
  constraint leased_has_a_lease check ((state = 2) = (lease_id is not null and session is not null)),
  constraint until_where_it_waits check ((state in (1, 2)) = (until_at is not null)),
  constraint terminal_has_ended check ((state >= 10) = (ended_at is not null)),
  constraint due_is_whole check ((due_kind is null) = (due_at is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);

alter table executions alter column input set storage external;
alter table executions alter column result set storage external;

-- Claims: the first waiting executions (state 0) of a class.
create index executions_claim on executions (class, priority desc, ready_order, id) where state = 0;
-- Due executions, by kind and time.
create index executions_due on executions (due_kind, due_at, id) where due_at is not null;
-- The leases of a session.
create index executions_lease on executions (session, until_at, id) where session is not null;
-- Lists, newest first. Every index costs each change of state an entry. So active executions (state 2) are listed
-- through their sessions, waiting (0) and completed (10) ones through the first of these, and all other states through
-- the second.
create index executions_list on executions (namespace, submitted_at, id) where state <> 2;
create index executions_list_by_state on executions (namespace, state, submitted_at, id) where state not in (0, 2, 10);
create index executions_list_by_flow on executions (flow, submitted_at, id) where flow is not null;

create table history_pages (
  execution uuid not null,
  page integer not null,
  lines bytea not null,
  primary key (execution, page)
);

create table tags (
  namespace integer not null,
  tag text not null,
  submitted_at timestamptz not null,
  execution uuid not null,
  primary key (namespace, tag, submitted_at, execution)
);

create table keys (
  namespace integer not null,
  scope smallint not null,
  key text not null,
  execution uuid,
  digest bigint not null,
  answer bytea not null,
  expires_at timestamptz,
  primary key (namespace, scope, key),
  constraint known_scope check (scope in (1, 2, 3)),
  constraint stands_for_one check ((scope = 3) = (execution is null))
);
create index keys_expired on keys (expires_at) where expires_at is not null;

-- No index on the times: a renewal stays a heap-only update.
create table sessions (
  id bigint primary key,
  namespace integer not null,
  worker text not null,
  instance text not null,
  ttl_ms bigint not null,
  lanes text[] not null,
  kinds text[],
  capabilities text[] not null,
  registered_at timestamptz not null,
  seen_at timestamptz not null,
  renewed_at timestamptz,
  draining boolean not null
) with (fillfactor = 50);
create index sessions_instance on sessions (namespace, instance);

-- One row per commit. The number is drawn when all locks of the transaction are held.
create table log (
  number bigint generated always as identity (cache 1) primary key,
  at timestamptz not null,
  body bytea not null
);
alter table log alter column body set storage external;
