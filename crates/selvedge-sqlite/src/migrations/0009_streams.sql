-- Streams: the output of attempts while they run, frame by frame. Kinds: 1 stdout, 2 stderr, 3 event, 4 blob.

-- Best-effort frames below `best_effort_from` are deleted: the next deletion starts there.
create table streams (
  execution blob not null check (length(execution) = 16),
  attempt integer not null,
  next integer not null check (next >= 0),
  bytes integer not null check (bytes >= 0),
  digest integer not null,
  summary_version integer not null check (summary_version >= 0),
  best_effort_from integer not null default 0,
  primary key (execution, attempt)
) strict, without rowid;

-- Separate from the streams, whose rows are written with every append.
create table summaries (
  execution blob not null check (length(execution) = 16),
  attempt integer not null,
  version integer not null,
  document blob not null,
  primary key (execution, attempt)
) strict;

create table frames (
  execution blob not null check (length(execution) = 16),
  attempt integer not null,
  number integer not null,
  kind integer not null check (kind between 1 and 4),
  best_effort integer not null check (best_effort in (0, 1)),
  at integer not null,
  data blob not null,
  primary key (execution, attempt, number)
) strict, without rowid;

-- Best-effort frames by age: they are kept only for a while.
create index frames_old
on frames (at)
where best_effort = 1;
