-- Inserts or replaces a step.
-- Index: the primary key of steps, steps_name.
-- Parameters: ?1 to ?8 as {step}
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
