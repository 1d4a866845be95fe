-- Flows: their rows, the names of their nodes, and the outbox of work that commits leave for later transactions.
--
-- State 3 of an execution is waiting_dependencies. States of a flow: 0 running, 1 completed, 2 failed, 3 cancelled. A
-- flow is due for 1 settlement or 2 deletion. Kinds of the outbox: 1 edges, 2 siblings, 3 children, 4 flow.

alter table executions
  drop constraint known_state,
  add constraint known_state check (state in (0, 1, 2, 3, 10, 11, 12, 13, 14)),
  add column joined bytea,
  -- Seldom written, so it comes last: an update that does not change it does not log it.
  add column wiring bytea;

-- The members of a flow are found through its nodes.
drop index executions_list_by_flow;

alter table keys
  drop constraint known_scope,
  add constraint known_scope check (scope in (1, 2, 3, 4));

-- The counts change with every change of a member. No index contains them, so adding to them is a heap-only update.
create table flows (
  id uuid primary key,
  submitted_at timestamptz not null,
  namespace integer not null,
  name text,
  tags text,
  spec text not null,
  version integer not null,
  state smallint not null,
  due_kind smallint,
  due_at timestamptz,
  ended_at timestamptz,
  blocked integer not null,
  waiting integer not null,
  delayed integer not null,
  active integer not null,
  completed integer not null,
  failed integer not null,
  cancelled integer not null,
  expired integer not null,
  skipped integer not null,
  detail text,
  constraint known_state check (state in (0, 1, 2, 3)),
  constraint counts check (
    version > 0
    and least(blocked, waiting, delayed, active, completed, failed, cancelled, expired, skipped) >= 0
  ),
  constraint running_has_no_end check ((state = 0) = (ended_at is null)),
  constraint due_is_whole check ((due_kind is null) = (due_at is null)),
  -- Due to be settled without live members, due to be deleted once settled, and not due while a member is live.
  constraint due_is_right check (
    coalesce(due_kind, 0) = case
      when state <> 0 then 2
      when blocked + waiting + delayed + active = 0 then 1
      else 0
    end
  )
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Lists, newest first.
create index flows_list on flows (namespace, submitted_at, id);
create index flows_list_by_state on flows (namespace, state, submitted_at, id);
-- Due flows, by kind and time.
create index flows_due on flows (due_kind, due_at, id) where due_at is not null;

-- The tags of a flow never change.
create table flow_tags (
  namespace integer not null,
  tag text not null,
  submitted_at timestamptz not null,
  flow uuid not null,
  primary key (namespace, tag, submitted_at, flow)
);

create table nodes (
  flow uuid not null,
  name text not null,
  submitted_at timestamptz not null,
  execution uuid not null,
  primary key (flow, name)
);
-- The members of a flow, in order of submission.
create unique index nodes_in_order on nodes (flow, submitted_at, execution);

create table outbox (
  id uuid not null,
  kind smallint not null,
  at timestamptz not null,
  position integer not null,
  namespace integer not null,
  tags text,
  primary key (id, kind),
  constraint known_kind check (kind in (1, 2, 3, 4)),
  constraint counts check (position >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- Outbox rows by age.
create index outbox_waiting on outbox (kind, at, id);
