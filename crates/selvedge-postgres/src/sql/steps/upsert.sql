-- Inserts or replaces steps.
-- Locks: the steps. Index: steps_pkey.
insert into steps ({step_columns})
select *
from unnest({step_types})
on conflict (execution, name) do update
set number = excluded.number,
  kind = excluded.kind,
  attempt = excluded.attempt,
  started_at = excluded.started_at,
  recorded_at = excluded.recorded_at,
  result = excluded.result
