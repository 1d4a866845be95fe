-- Schedules: times at which the engine submits an execution or a flow.

create table schedules (
  namespace integer not null,
  name text collate "C" not null,
  version integer not null check (version > 0),
  -- The version at which `spec` was written last.
  spec_version integer not null check (spec_version > 0),
  -- JSON: the part that callers save, with the submission. Written only by them.
  spec text not null,
  -- JSON: the position, the queue and the last runs. Written by every decision.
  state text not null,
  -- The time at which it is looked at next; null if it is paused.
  due_at timestamptz,
  primary key (namespace, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- Due schedules, by time.
create index schedules_due on schedules (due_at, namespace, name) where due_at is not null;
