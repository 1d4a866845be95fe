-- The projection: events and attempts as rows that SQL can read. The log and the histories are packed, so a server with
-- `--event-views` follows the log and writes what it reads there into these tables. They are empty while no server does.

-- The position: the number of the last entry whose rows are there; 0 before the first. Rows and position are written by one
-- transaction, by the owner alone while its lease lasts.
create table projection (
  single boolean primary key default true,
  entry bigint not null default 0,
  owner uuid,
  owned_until timestamptz not null default '-infinity',
  constraint there_is_one check (single)
);
insert into projection default values;

-- Deleted when their entry leaves the log, in the order of the log, which is the order of the cursors. The namespace is null
-- for events that concern the log itself.
create table projected_events (
  cursor text collate "C" primary key,
  type text not null,
  at timestamptz not null,
  namespace integer,
  execution uuid,
  flow uuid,
  version bigint,
  actor text,
  data json not null
);
create index projected_events_namespace on projected_events (namespace, cursor);
-- Small, and cheap to write: rows are appended in the order of time. For reports over a range of time.
create index projected_events_at on projected_events using brin (at);

-- Deleted with the execution.
create table projected_attempts (
  execution uuid not null,
  attempt integer not null,
  namespace integer not null,
  lease_id uuid not null,
  epoch integer not null,
  worker text not null,
  instance text not null,
  started_at timestamptz not null,
  ended_at timestamptz,
  outcome text,
  error_message text,
  error_class text,
  primary key (execution, attempt)
) with (fillfactor = 80);
create index projected_attempts_started on projected_attempts using brin (started_at);

create view v1_events as
select
  projected_events.cursor,
  projected_events.type,
  projected_events.at,
  namespaces.name as namespace,
  projected_events.execution,
  projected_events.flow,
  projected_events.version,
  projected_events.actor,
  projected_events.data
from projected_events
left join namespaces on namespaces.id = projected_events.namespace;

create view v1_attempts as
select
  projected_attempts.execution,
  namespaces.name as namespace,
  projected_attempts.attempt,
  projected_attempts.lease_id,
  projected_attempts.epoch,
  projected_attempts.worker,
  projected_attempts.instance,
  projected_attempts.started_at,
  projected_attempts.ended_at,
  projected_attempts.outcome,
  projected_attempts.error_message,
  projected_attempts.error_class
from projected_attempts
join namespaces on namespaces.id = projected_attempts.namespace;
