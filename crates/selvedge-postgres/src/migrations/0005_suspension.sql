-- Suspension: what a suspended execution waits for, and what is recorded beside executions: signals, steps, waitpoints. The
-- row of an execution is the lock for all of that.

alter table executions
  drop constraint known_state,
  add constraint known_state check (state in (0, 1, 2, 3, 4, 10, 11, 12, 13, 14)),
  -- Null in every other state, so it takes no room there.
  add column suspension bytea,
  add constraint suspended_has_a_suspension check ((state = 4) = (suspension is not null));

alter table flows
  add column suspended integer not null default 0,
  drop constraint counts,
  add constraint counts check (
    version > 0
    and least(blocked, waiting, delayed, active, suspended, completed, failed, cancelled, expired, skipped) >= 0
  ),
  drop constraint due_is_right,
  add constraint due_is_right check (
    coalesce(due_kind, 0) = case
      when state <> 0 then 2
      when blocked + waiting + delayed + active + suspended = 0 then 1
      else 0
    end
  );
alter table flows alter column suspended drop default;

alter table outbox
  drop constraint known_kind,
  add constraint known_kind check (kind in (1, 2, 3, 4, 5));

create table signals (
  execution uuid not null,
  number integer not null,
  at timestamptz not null,
  digest bigint not null,
  effect smallint not null,
  taken integer,
  waitpoint uuid,
  waitpoint_name text,
  name text not null,
  source text not null,
  key text,
  payload bytea not null,
  primary key (execution, number),
  constraint counts check (number > 0 and taken > 0),
  constraint known_effect check (effect in (0, 1, 2)),
  constraint waitpoint_is_whole check ((waitpoint is null) = (waitpoint_name is null))
) with (autovacuum_vacuum_scale_factor = 0.02);
alter table signals alter column payload set storage external;
-- The key of a sender stands for one signal.
create unique index signals_key on signals (execution, key) where key is not null;
-- What a suspension hears that was delivered before it. However much an execution was told, only what is kept is read. The
-- price is that a signal which is taken later than it came is no heap-only update; so no room is left for it on the page.
create index signals_untaken on signals (execution, number) where taken is null;

-- A wait is written when it begins and again when it ends; no index knows of what changes then. A step is found by its name;
-- a second index, for pages in the order of numbers, would cost every step an entry, and those pages are seldom read.
create table steps (
  execution uuid not null,
  name text not null,
  number integer not null,
  kind smallint not null,
  started_at timestamptz not null,
  attempt integer not null,
  recorded_at timestamptz,
  result bytea,
  primary key (execution, name),
  constraint counts check (number > 0 and attempt >= 0),
  constraint known_kind check (kind in (0, 1, 2, 3, 4, 5)),
  constraint recorded_has_a_result check ((recorded_at is null) = (result is null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
alter table steps alter column result set storage external;

-- Written when it is made and again when it is closed; no index knows of what changes then.
create table waitpoints (
  id uuid primary key,
  execution uuid not null,
  number integer not null,
  namespace integer not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  name text not null,
  source text not null,
  key bigint not null,
  state smallint not null,
  effect smallint,
  signal integer,
  constraint counts check (number > 0 and signal > 0),
  constraint known_state check (state in (0, 1, 2, 3)),
  constraint known_effect check (effect in (0, 1, 2)),
  constraint delivered_has_a_signal check (
    (state = 1) = (signal is not null)
    and (state = 1) = (effect is not null)
  )
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
create unique index waitpoints_of_execution on waitpoints (execution, number);

-- What is stored of the keys of tokens: never the keys themselves.
create table token_keys (
  id bigint primary key,
  fingerprint bigint not null,
  created_at timestamptz not null,
  retires_at timestamptz
);

-- The root secret, where the servers are given none: of whoever comes first.
create table kept_secret (
  single boolean primary key default true,
  secret bytea not null,
  constraint there_is_one check (single)
);
