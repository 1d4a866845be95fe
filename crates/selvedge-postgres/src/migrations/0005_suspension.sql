-- Suspension: the conditions of suspended executions (state 4), and the records of executions: signals, steps,
-- waitpoints. The row of an execution is the lock for all of its records.
--
-- Kind 5 of the outbox updates a parent whose children have ended. States of a waitpoint: 0 open, 1 delivered, 2 expired,
-- 3 revoked.

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
-- A sender's key identifies one signal.
create unique index signals_key on signals (execution, key) where key is not null;
-- Signals delivered before the suspension that takes them. However many signals an execution has, only untaken ones are
-- read. The price: taking a signal later than its delivery is no heap-only update, so no room is left for it on the
-- page.
create index signals_untaken on signals (execution, number) where taken is null;

-- A wait is written when it begins and when it ends; no index contains the columns that change. A step is found by its
-- name. A second index, for pages in the order of numbers, would cost every step an entry, and those pages are seldom
-- read.
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

-- A waitpoint is written when it is created and when it is closed; no index contains the columns that change.
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

-- The fingerprints of token keys. The keys themselves are never stored.
create table token_keys (
  id bigint primary key,
  fingerprint bigint not null,
  created_at timestamptz not null,
  retires_at timestamptz
);

-- The root secret of the first server, if servers are configured without one.
create table kept_secret (
  single boolean primary key default true,
  secret bytea not null,
  constraint there_is_one check (single)
);
