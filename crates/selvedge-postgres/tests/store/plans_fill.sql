-- 100 000 executions: two in three have ended, one in eight is suspended and as many are held by three gates; the others
-- are waiting in 20 classes, of which ten share a pool, delayed, or active under 40 sessions. One in ten is a member of one of 1000 flows. 20 000
-- flows and as many outbox rows. 20 000 entries of the log over four days. 1000 streams, one of which has most of the
-- 100 000 frames. One execution has most of the 50 000 signals, nearly all of them taken, and of the 50 000 steps. 20 000
-- gates of all kinds, 20 000 classes, and 50 000 entries of the ledger, most of them of one budget.
--
-- States: 0 waiting, 1 delayed, 2 active, 4 suspended, 5 held, 10 completed, 11 failed, 12 cancelled, 13 expired.
insert into executions
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
  timestamptz '2026-01-01' + n * interval '1 s', 1 + n / 100 % 3, 1 + n / 100 % 20, 0,
  case when n % 10 = 0 then ('00000000-0000-7000-8000-' || lpad(to_hex(n - n % 100), 12, '0'))::uuid end, null, 'null',
  3, 1, s.state, n / 100 % 4,
  case s.state when 0 then null when 1 then 1 when 2 then 3 when 4 then 5 when 5 then 2 else 4 end,
  timestamptz '2026-01-01' + n * interval '1 s',
  case when s.state <> 0 then timestamptz '2026-01-01' + n * interval '1 s' end,
  case when s.state = 2 then n / 100 % 40 end,
  case when s.state in (1, 2) then timestamptz '2026-01-01' + n * interval '1 s' end,
  null, case when s.state >= 10 then timestamptz '2026-01-01' end,
  case when s.state = 2 then gen_random_uuid() end,
  null, null, '', null, null, null, case when s.state = 4 then ''::bytea end, case when s.state = 5 then n % 3 end,
  case when s.state = 5 then n end, case when s.state = 5 then ''::bytea end, case when n / 100 % 20 > 9 then -2 end
from generate_series(1, 100000) as n
cross join lateral (
  select case n % 100 when 0 then 0 when 1 then 1 when 2 then 2 else (array[10, 10, 4, 10, 5, 11, 12, 13])[1 + n % 8] end
) as s (state);
insert into class_priorities
select class, priority, 0
from generate_series(-2, 20) as class, generate_series(0, 3) as priority;
insert into namespaces (id, name)
overriding system value
select n, 'namespace' || n
from generate_series(1, 3) as n;
insert into classes
select
  n, 1 + n % 3, 'lane' || n % 100, 'kind' || n, '{}', case when n % 2 = 0 then -2 end,
  timestamptz '2026-01-01' + n * interval '1 s'
from generate_series(1, 20000) as n;
insert into tags
select namespace, 'colour:' || class, submitted_at, id
from executions;
insert into sessions
select n, 1 + n % 3, 'worker', 'instance' || n, 30000, '{default}', null, '{}', now(), now(), now(), false
from generate_series(0, 39) as n;
insert into keys
select 1, case when n % 2 = 0 then 1 else 3 end, 'key' || n, case when n % 2 = 0 then gen_random_uuid() end, n, '',
  case when n % 2 = 1 then now() + n * interval '1 ms' - interval '1 s' end
from generate_series(1, 20000) as n;
insert into history_pages
select id, 0, ''
from executions
where state >= 10;
insert into log (at, body)
select now() + n / 6000 * interval '1 day', ''
from generate_series(1, 20000) as n;
insert into streams
select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1, 90000, 0, 0, 0, 89900, null
from generate_series(1, 1000) as n;
insert into frames
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(case when n > 10000 then 7 else n % 1000 end), 12, '0'))::uuid, 1, n, 1,
  n % 3 = 0, now() - interval '1 hour' + n * interval '50 ms', '1'
from generate_series(1, 100000) as n;
insert into nodes
select flow, 'node' || id, submitted_at, id
from executions
where flow is not null;
insert into flows
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
  timestamptz '2026-01-01' + n * interval '1 s', 1 + n / 100 % 3, case when n % 2 = 0 then 'even' end,
  '{"colour":"' || n / 100 % 20 || '"}', '{}', 1, n % 4,
  case when n % 4 <> 0 then 2 when n % 8 = 0 then 1 end,
  case when n % 8 <> 4 then timestamptz '2026-01-01' + n * interval '1 s' end,
  case when n % 4 <> 0 then timestamptz '2026-01-01' end,
  0, case when n % 8 = 4 then 3 else 0 end, 0, 0, 7, 0, 0, 0, 0, null, 0, 0
from generate_series(1, 20000) as n;
insert into flow_tags
select flows.namespace, 'colour:' || (flows.tags::json ->> 'colour'), flows.submitted_at, flows.id
from flows;
insert into outbox
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1 + n % 4,
  timestamptz '2026-01-01' + n * interval '1 s', 0, 1, null
from generate_series(1, 20000) as n;
insert into signals (execution, number, at, digest, effect, taken, name, source, key, payload)
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(case when n > 10000 then 7 else n % 1000 end), 12, '0'))::uuid, n, now(), n, 0,
  case when n % 100 <> 0 then 1 end, 'name', 'source', case when n % 2 = 0 then 'key' || n end, '1'
from generate_series(1, 50000) as n;
insert into steps (execution, number, started_at, kind, name, attempt, recorded_at, result)
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(case when n > 10000 then 7 else n % 1000 end), 12, '0'))::uuid, n, now(), 0,
  'step' || n, 1, now(), '1'
from generate_series(1, 50000) as n;
insert into waitpoints (id, execution, number, namespace, created_at, name, source, key, state)
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
  ('00000000-0000-7000-8000-' || lpad(to_hex(n % 1000), 12, '0'))::uuid, n, 1 + n % 3, now() + n * interval '1 ms', 'name',
  'source ' || n % 50, 1, n % 2 * 2
from generate_series(1, 20000) as n;
insert into gates (id, namespace, kind, version, active, limits, due_at, name, part, config, state)
select
  n - 10000, 1 + n / 1000 % 3, 1 + n % 5, 3, n % 7, n % 7 > 0,
  case when n % 10 = 0 then timestamptz '2026-01-01' + n * interval '1 s' end,
  case when n % 5 = 3 then 'budget' || n % 20 else 'gate' || n end, case when n % 5 = 3 then 'part' || n end,
  case when n % 5 <> 3 and n % 3 = 0 then '{}' end, null
from generate_series(1, 20000) as n;
insert into ledger
select
  case when n > 10000 then 7 else n % 1000 end, n % 2,
  case when n > 10 then ('00000000-0000-7000-8000-' || lpad(to_hex(n / 2), 12, '0'))::uuid end, '{"tokens":1.5}'
from generate_series(9, 50000) as n;

-- Ten lanes on two servers in every minute of a day, in three namespaces.
insert into rollups
select 1 + n % 3, '2026-01-01'::timestamptz + (n / 60) * interval '1 minute', 'lane ' || n / 6 % 10, n % 2, '{}'
from generate_series(0, 86399) as numbers (n)
on conflict do nothing;

-- Webhooks, one of them with half of the deliveries.
insert into webhooks
select 1 + n % 3, 'webhook' || n, 1, '{}'
from generate_series(1, 5000) as numbers (n);
insert into webhook_deliveries
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(case when n > 25000 then 7 else n % 1000 end), 12, '0'))::uuid, n,
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, case when n % 100 = 0 then 1 else 2 end, '{}', '{}'
from generate_series(1, 50000) as numbers (n);

-- 20 000 schedules in three namespaces, one in ten of which is paused.
insert into schedules
select
  1 + n % 3, 'schedule' || n, 1, 1, '{}', '{}',
  case when n % 10 > 0 then timestamptz '2026-01-01' + n * interval '1 minute' end
from generate_series(1, 20000) as n;

-- Events and attempts of the projection.
insert into projected_events
select
  '2' || lpad(to_hex(n), 16, '0') || '000000000001000000001', 'type', timestamptz '2026-01-01' + n * interval '1 s', 1 + n % 3,
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, null, 1, null, '{}'
from generate_series(1, 50000) as numbers (n);
insert into projected_attempts
select
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 0, 1 + n % 3,
  ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1, 'worker', 'instance',
  timestamptz '2026-01-01' + n * interval '1 s'
from generate_series(1, 50000) as numbers (n);
