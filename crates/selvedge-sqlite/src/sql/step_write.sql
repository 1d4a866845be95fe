-- Writes a step, new or not. Expects the primary key of steps and the index steps_name.
insert into steps ({step})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (execution, number) do update
set
  name = excluded.name,
  kind = excluded.kind,
  attempt = excluded.attempt,
  started_at = excluded.started_at,
  recorded_at = excluded.recorded_at,
  result = excluded.result
