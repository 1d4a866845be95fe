-- Writes a waitpoint, new or not. Expects the primary key of waitpoints and the unique index on id.
insert into waitpoints ({waitpoint})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
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
  effect = excluded.effect
