-- Streams: the output of attempts while they run, frame by frame.

-- The counts change with every append. No index contains them, so appending is a heap-only update. The summary, which
-- may be large, comes last and is written only when it has changed.
create table streams (
  execution uuid not null,
  attempt integer not null,
  next integer not null,
  bytes bigint not null,
  digest bigint not null,
  summary_version integer not null,
  -- Best-effort frames with smaller numbers are deleted: the next deletion starts here.
  best_effort_from integer not null default 0,
  summary bytea,
  primary key (execution, attempt),
  constraint counts check (next >= 0 and bytes >= 0 and summary_version >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
alter table streams alter column summary set storage external;

create table frames (
  execution uuid not null,
  attempt integer not null,
  number integer not null,
  kind smallint not null,
  best_effort boolean not null,
  at timestamptz not null,
  data bytea not null,
  primary key (execution, attempt, number),
  constraint known_kind check (kind in (1, 2, 3, 4))
) with (autovacuum_vacuum_scale_factor = 0.02);
alter table frames alter column data set storage external;
-- Best-effort frames by age: they are kept only for a while.
create index frames_old on frames (at) where best_effort;
