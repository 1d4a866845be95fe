-- Gates hold executions: state 5 is held. `gate` is the id of the gate that releases a held execution, or one that was
-- suspended by the gate; `suspension` of a held execution is the encoded name of its gate. A constraint of a column
-- cannot be changed, so the table is rebuilt, with the payloads last.
--
-- A key of scope 5 stands for a report of usage of a budget, and expires.

create table executions_gated (
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
  wiring blob,
  input blob,
  result blob,
  -- A level of priority counts as an hour of waiting.
  constraint rank_is_right check (rank = ready_order - priority * 3600000000),
  constraint due_is_whole check ((due_kind is null) = (due_at is null)),
  constraint leased_has_lease check ((state = 2) = (lease_id is not null)),
  constraint leased_has_session check ((state = 2) = (session is not null)),
  constraint leased_and_delayed_have_until check (state not in (1, 2) or until_at is not null),
  constraint suspended_and_held_have_suspension check ((state in (4, 5)) = (suspension is not null)),
  constraint held_has_gate check (state <> 5 or gate is not null),
  constraint gate_lets_go_on check (gate is null or state in (4, 5)),
  constraint ended_has_ended_at check ((state >= 10) = (ended_at is not null))
) strict;

insert into executions_gated
select
  place, id, partition, namespace, class, flow, submitted_at, spec, version, state, priority, ready_order,
  ready_order - priority * 3600000000, epoch,
  due_kind, due_at, session, lease_id, until_at, started_at, ended_at, null, tags, detail, history, joined, suspension,
  wiring, input, result
from executions;

drop table executions;

alter table executions_gated rename to executions;

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

-- Held members are live.
alter table flows
drop column live;

alter table flows
add column held integer not null default 0;

alter table flows
add column live integer not null
generated always as (blocked + waiting + delayed + active + suspended + held) virtual;

-- Kinds: 1 lane, 2 concurrency key, 3 quota, 4 budget, 5 fairness key. The id is a digest of namespace, kind, name and
-- part. `config` is the configuration by operators and `state` the state that changes, both JSON objects; a state with
-- all defaults is null.
create table gates (
  id integer primary key,
  namespace integer not null,
  kind integer not null,
  name text not null,
  part text,
  version integer not null check (version >= 0),
  config text,
  active integer not null check (active >= 0),
  state text,
  due_at integer
) strict;

create index gates_due
on gates (due_at)
where due_at is not null;

create index gates_configured
on gates (namespace, kind, name)
where config is not null;

create index gates_parts
on gates (namespace, kind, name)
where part is not null;

-- The parts of budgets that count for one flow.
create index gates_of_flow
on gates (part)
where kind = 4;

-- Usage of a budget, or of a part of it, in a period: by an execution, or without one, which includes the usage of
-- deleted executions. `spent` is a JSON object of amounts.
create table ledger (
  place integer primary key,
  gate integer not null,
  period integer not null,
  execution blob check (length(execution) = 16),
  spent text not null
) strict;

create unique index ledger_entries
on ledger (gate, period, ifnull(execution, x''));

create index ledger_of
on ledger (execution)
where execution is not null;
