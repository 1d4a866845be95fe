-- Admission: held executions (state 5), the gates that hold them (lanes, concurrency keys, quotas, budgets, fairness
-- keys), and the ledger of usage.

alter table executions
  drop constraint known_state,
  add constraint known_state check (state in (0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14)),
  -- The id of the gate that releases a held execution, or one that was suspended by the gate. Null in every other
  -- state, so it takes no room there.
  add column gate bigint,
  -- The position among the executions of the same gate.
  add column gate_rank bigint,
  -- The suspension of a held execution is the name of its gate.
  drop constraint suspended_has_a_suspension,
  add constraint suspended_and_held_have_a_suspension check ((state in (4, 5)) = (suspension is not null)),
  add constraint held_has_a_gate check (state <> 5 or gate is not null),
  add constraint gate_has_a_rank check ((gate is null) = (gate_rank is null)),
  add constraint gate_is_waited_for check (gate is null or state in (4, 5));

-- The executions that a gate holds, in claim order.
create index executions_held on executions (gate, gate_rank, id) where gate is not null;

alter table flows
  add column held integer not null default 0,
  drop constraint counts,
  add constraint counts check (
    version > 0
    and least(
      blocked, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped
    ) >= 0
  ),
  drop constraint due_is_right,
  add constraint due_is_right check (
    coalesce(due_kind, 0) = case
      when state <> 0 then 2
      when blocked + waiting + delayed + active + suspended + held = 0 then 1
      else 0
    end
  );
alter table flows alter column held drop default;

-- A key of scope 5 stands for a report of usage that is counted once.
alter table keys
  drop constraint known_scope,
  add constraint known_scope check (scope in (1, 2, 3, 4, 5)),
  drop constraint stands_for_one,
  add constraint stands_for_one check ((scope in (3, 5)) = (execution is null));

-- Kinds: 1 lane, 2 concurrency key, 3 quota, 4 budget, 5 fairness key. The id is a digest of namespace, kind, name and
-- part. Every claim and every end that a gate counts changes its row. Of the columns that change, an index contains
-- only the due time, so counting is a heap-only update.
create table gates (
  id bigint primary key,
  namespace integer not null,
  kind smallint not null,
  version integer not null,
  active integer not null,
  -- True if claims must lock the gate: it limits something, or slots of it are taken.
  limits boolean not null,
  due_at timestamptz,
  name text collate "C" not null,
  part text collate "C",
  -- The configuration by operators: a JSON object.
  config text,
  -- The state that changes: a JSON object; null if everything has its default.
  state text,
  constraint known_kind check (kind in (1, 2, 3, 4, 5)),
  constraint counts check (version >= 0 and active >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- Due gates, by time.
create index gates_due on gates (due_at, id) where due_at is not null;
-- Lists, by name.
create index gates_configured on gates (namespace, kind, name) where config is not null;
create index gates_parts on gates (namespace, kind, name, id) where part is not null;
-- The parts of budgets (kind 4) that count for one flow.
create index gates_of_flow on gates (part) where kind = 4 and part is not null;

-- Usage of a budget, or of a part of it, in a period: by an execution, or without one, which includes the usage of
-- deleted executions. The amounts are a JSON object of exact numbers; no index contains it.
create table ledger (
  gate bigint not null,
  period integer not null,
  execution uuid,
  spent jsonb not null,
  constraint counts check (period >= 0)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
create unique index ledger_entries on ledger (gate, period, execution) nulls not distinct;
create index ledger_of on ledger (execution) where execution is not null;

-- A plan made while a table has few rows is kept while the table grows, until the next statistics. So the first
-- statistics are gathered only when there are many rows.
alter table executions set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table tags set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table keys set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table history_pages set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table flows set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table flow_tags set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table nodes set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table streams set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table frames set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table signals set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table steps set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table waitpoints set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
alter table ledger set (autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000);
