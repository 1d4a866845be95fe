-- The projection: events and attempts as rows that SQL can read. The log and the histories are packed, so a server with
-- `--event-views` follows the log and writes what it reads there into these tables. They are empty while it does not.

-- The position: the number of the last entry whose rows are there; 0 before the first. Rows and position are written by one
-- transaction.
create table projection (
  single integer primary key check (single = 1),
  entry integer not null
) strict;

insert into projection values (1, 0);

-- Deleted when their entry leaves the log, in the order of the log, which is the order of the cursors. The namespace is null
-- for events that concern the log itself.
create table projected_events (
  cursor text primary key,
  type text not null,
  at integer not null,
  namespace integer,
  execution blob,
  flow blob,
  version integer,
  actor text,
  data text not null
) strict, without rowid;

create index projected_events_namespace on projected_events (namespace, cursor);

-- Deleted with the execution.
create table projected_attempts (
  execution blob not null,
  attempt integer not null,
  namespace integer not null,
  lease_id blob not null,
  epoch integer not null,
  worker text not null,
  instance text not null,
  started_at integer not null,
  ended_at integer,
  outcome text,
  error_message text,
  error_class text,
  primary key (execution, attempt)
) strict, without rowid;

create view v1_events as
select
  projected_events.cursor,
  projected_events.type,
  strftime('%Y-%m-%dT%H:%M:%fZ', projected_events.at / 1000 / 1000.0, 'unixepoch') as at,
  namespaces.name as namespace,
  iif(
    projected_events.execution is null,
    null,
    lower(
      substr(hex(projected_events.execution), 1, 8) || '-' || substr(hex(projected_events.execution), 9, 4)
      || '-' || substr(hex(projected_events.execution), 13, 4) || '-' || substr(hex(projected_events.execution), 17, 4)
      || '-' || substr(hex(projected_events.execution), 21)
    )
  ) as execution,
  iif(
    projected_events.flow is null,
    null,
    lower(
      substr(hex(projected_events.flow), 1, 8) || '-' || substr(hex(projected_events.flow), 9, 4)
      || '-' || substr(hex(projected_events.flow), 13, 4) || '-' || substr(hex(projected_events.flow), 17, 4)
      || '-' || substr(hex(projected_events.flow), 21)
    )
  ) as flow,
  projected_events.version,
  projected_events.actor,
  projected_events.data
from projected_events
left join namespaces on namespaces.id = projected_events.namespace;

create view v1_attempts as
select
  lower(
    substr(hex(projected_attempts.execution), 1, 8) || '-' || substr(hex(projected_attempts.execution), 9, 4)
    || '-' || substr(hex(projected_attempts.execution), 13, 4) || '-' || substr(hex(projected_attempts.execution), 17, 4)
    || '-' || substr(hex(projected_attempts.execution), 21)
  ) as execution,
  namespaces.name as namespace,
  projected_attempts.attempt,
  lower(
    substr(hex(projected_attempts.lease_id), 1, 8) || '-' || substr(hex(projected_attempts.lease_id), 9, 4)
    || '-' || substr(hex(projected_attempts.lease_id), 13, 4) || '-' || substr(hex(projected_attempts.lease_id), 17, 4)
    || '-' || substr(hex(projected_attempts.lease_id), 21)
  ) as lease_id,
  projected_attempts.epoch,
  projected_attempts.worker,
  projected_attempts.instance,
  strftime('%Y-%m-%dT%H:%M:%fZ', projected_attempts.started_at / 1000 / 1000.0, 'unixepoch') as started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', projected_attempts.ended_at / 1000 / 1000.0, 'unixepoch') as ended_at,
  projected_attempts.outcome,
  projected_attempts.error_message,
  projected_attempts.error_class
from projected_attempts
join namespaces on namespaces.id = projected_attempts.namespace;
