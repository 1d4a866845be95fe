-- Wiring of executions: two more columns, before the payloads, so that reading them never reads those. So the table is
-- rebuilt. The members of a flow are found through `nodes`, so the index on `flow` is dropped.
--
-- State 3 is waiting_dependencies. `wiring` and `joined` are encoded.

create table executions_wired (
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
  joined blob,
  wiring blob,
  input blob,
  result blob,
  constraint due_is_whole check ((due_kind is null) = (due_at is null)),
  constraint leased_has_lease check ((state = 2) = (lease_id is not null)),
  constraint leased_has_session check ((state = 2) = (session is not null)),
  constraint leased_and_delayed_have_until check (state not in (1, 2) or until_at is not null),
  constraint ended_has_ended_at check ((state >= 10) = (ended_at is not null))
) strict;

insert into executions_wired
select
  place, id, partition, namespace, class, flow, submitted_at, spec, version, state, priority, ready_order, epoch,
  due_kind, due_at, session, lease_id, until_at, started_at, ended_at, tags, detail, history, null, null, input, result
from executions;

drop table executions;

alter table executions_wired rename to executions;

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
