-- Executions, and the tables of rows that belong to one of them.
--
-- A change rewrites the whole row. So an input that is too long for a row is stored in `inputs`, where changes of its
-- execution do not rewrite it, and `executions.input` is null. Payloads come last, so that reading the rest of a row
-- never reads them.
--
-- States: 0 waiting, 1 delayed, 2 active, 10 completed, 11 failed, 12 cancelled, 13 expired, 14 skipped; 3 to 9 are
-- reserved for live states. Times are microseconds since the Unix epoch.

create table executions (
  place integer primary key,
  id blob not null unique check (length(id) = 16),
  partition integer not null,
  namespace integer not null,
  class integer not null,
  flow blob check (length(flow) = 16),
  submitted_at integer not null,
  spec text,
  version integer not null check (version > 0),
  state integer not null check (state between 0 and 14),
  priority integer not null,
  ready_order integer not null,
  epoch integer not null check (epoch >= 0),
  due_kind integer,
  due_at integer,
  session integer,
  lease_id blob check (length(lease_id) = 16),
  until_at integer,
  started_at integer,
  ended_at integer,
  tags text,
  detail text,
  history blob not null,
  input blob,
  result blob,
  constraint due_is_whole check ((due_kind is null) = (due_at is null)),
  constraint leased_has_lease check ((state = 2) = (lease_id is not null)),
  constraint leased_has_session check ((state = 2) = (session is not null)),
  constraint leased_and_delayed_have_until check (state not in (1, 2) or until_at is not null),
  constraint ended_has_ended_at check ((state >= 10) = (ended_at is not null))
) strict;

-- Waiting executions.
create index executions_claim
on executions (class, priority desc, ready_order, id)
where state = 0;

create index executions_due
on executions (due_kind, due_at, id)
where due_at is not null;

create index executions_session
on executions (session, until_at)
where session is not null;

create index executions_list
on executions (namespace, submitted_at, id);

-- All states except completed, which lists of the namespace serve.
create index executions_by_state
on executions (namespace, state, submitted_at, id)
where state <> 10;

create index executions_flow
on executions (flow)
where flow is not null;

create table inputs (
  execution blob not null primary key,
  body blob not null
) strict;

create table history_pages (
  execution blob not null,
  page integer not null,
  lines blob not null,
  primary key (execution, page)
) strict;

create table tags (
  namespace integer not null,
  tag text not null,
  submitted_at integer not null,
  execution blob not null,
  primary key (namespace, tag, submitted_at, execution)
) strict, without rowid;
