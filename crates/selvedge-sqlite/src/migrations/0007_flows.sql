-- Flows, the names of their nodes, and the outbox. A key of scope 4 stands for a flow.
--
-- States of a flow: 0 running, 1 completed, 2 failed, 3 cancelled. A flow is due for 1 settlement or 2 deletion. Its
-- counts are the numbers of its members in each state.

create table flows (
  place integer primary key,
  id blob not null unique check (length(id) = 16),
  namespace integer not null,
  submitted_at integer not null,
  name text,
  tags text,
  spec text not null,
  version integer not null check (version > 0),
  state integer not null check (state between 0 and 3),
  due_kind integer,
  due_at integer,
  ended_at integer,
  detail text,
  blocked integer not null,
  waiting integer not null,
  delayed integer not null,
  active integer not null,
  completed integer not null,
  failed integer not null,
  cancelled integer not null,
  expired integer not null,
  skipped integer not null,
  live integer not null generated always as (blocked + waiting + delayed + active) virtual,
  constraint due_is_whole check ((due_kind is null) = (due_at is null))
) strict;

create index flows_list
on flows (namespace, submitted_at, id);

create index flows_by_state
on flows (namespace, state, submitted_at, id);

create index flows_due
on flows (due_kind, due_at, id)
where due_at is not null;

create table flow_tags (
  namespace integer not null,
  tag text not null,
  submitted_at integer not null,
  flow blob not null,
  primary key (namespace, tag, submitted_at, flow)
) strict, without rowid;

create table nodes (
  flow blob not null check (length(flow) = 16),
  name text not null,
  submitted_at integer not null,
  execution blob not null check (length(execution) = 16),
  primary key (flow, name)
) strict, without rowid;

create unique index nodes_members
on nodes (flow, submitted_at, execution);

-- Kinds: 1 edges, 2 siblings, 3 children, 4 flow.
create table outbox (
  id blob not null check (length(id) = 16),
  kind integer not null,
  at integer not null,
  position integer not null check (position >= 0),
  namespace integer not null,
  tags text,
  primary key (id, kind)
) strict, without rowid;

create index outbox_waiting
on outbox (kind, at, id);
