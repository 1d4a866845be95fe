-- Inserts or replaces steps.
-- Locks: the steps. Index: steps_pkey.
insert into steps (execution, number, name, kind, attempt, started_at, recorded_at, result)
select *
from unnest(
  $1::uuid[], $2::integer[], $3::text[], $4::smallint[], $5::integer[], $6::timestamptz[], $7::timestamptz[],
  $8::bytea[]
)
on conflict (execution, name) do update
set number = excluded.number,
  kind = excluded.kind,
  attempt = excluded.attempt,
  started_at = excluded.started_at,
  recorded_at = excluded.recorded_at,
  result = excluded.result
