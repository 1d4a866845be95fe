-- Inserts or replaces a waitpoint.
-- Index: the primary key of waitpoints, the unique index on waitpoints.id.
-- Parameters: ?1 to ?15 as {waitpoint}
insert into waitpoints ({waitpoint})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
on conflict (execution, number) do update
set
  id = excluded.id,
  namespace = excluded.namespace,
  name = excluded.name,
  source = excluded.source,
  key = excluded.key,
  created_at = excluded.created_at,
  expires_at = excluded.expires_at,
  state = excluded.state,
  signal = excluded.signal,
  effect = excluded.effect,
  signals = excluded.signals,
  prompt = excluded.prompt,
  issue = excluded.issue
