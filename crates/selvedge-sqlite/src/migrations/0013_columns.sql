-- One column, one meaning. `claim_priority` is the priority under which claims find an execution: the heads of fairness lines share
-- one, and their own is in `detail`. `held_by` is the encoded name of the gate that holds a held execution, which `suspension` had
-- before. A constraint cannot be dropped, so the table is created anew. The count of a flow has the name of its state, and the
-- subject of a key is an execution or a flow, by its scope.

create table executions_by_column (
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
  claim_priority integer not null,
  ready_order integer not null,
  rank integer not null,
  epoch integer not null check (epoch >= 0),
  due_kind integer,
  due_at integer,
  session integer,
  lease_id blob check (length(lease_id) = 16),
  until_at integer,
  started_at integer,
  ended_at integer,
  gate integer,
  tags text,
  detail text,
  history blob not null,
  joined blob,
  suspension blob,
  held_by blob,
  wiring blob,
  input blob,
  result blob,
  -- A level of priority counts as an hour of waiting.
  constraint rank_is_right check (rank = ready_order - claim_priority * 3600000000),
  constraint due_is_whole check ((due_kind is null) = (due_at is null)),
  constraint leased_has_lease check ((state = 2) = (lease_id is not null)),
  constraint leased_has_session check ((state = 2) = (session is not null)),
  constraint leased_and_delayed_have_until check (state not in (1, 2) or until_at is not null),
  constraint suspended_has_suspension check ((state = 4) = (suspension is not null)),
  constraint held_has_holder check ((state = 5) = (held_by is not null)),
  constraint held_has_gate check (state <> 5 or gate is not null),
  constraint gate_lets_go_on check (gate is null or state in (4, 5)),
  constraint ended_has_ended_at check ((state >= 10) = (ended_at is not null))
) strict;

insert into executions_by_column
select
  place, id, partition, namespace, class, flow, submitted_at, spec, version, state, priority, ready_order, rank, epoch,
  due_kind, due_at, session, lease_id, until_at, started_at, ended_at, gate, tags, detail, history, joined,
  iif(state = 4, suspension, null), iif(state = 5, suspension, null), wiring, input, result
from executions;

drop table executions;

alter table executions_by_column rename to executions;

-- Waiting executions.
create index executions_claim
on executions (class, rank, id)
where state = 0;

-- The executions that a gate holds, in claim order.
create index executions_held
on executions (gate, rank, id)
where gate is not null;

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

alter table flows
rename column blocked to waiting_dependencies;

alter table keys
rename column execution to subject;
