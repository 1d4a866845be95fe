-- Writes a row of the outbox, new or not. Expects the primary key of outbox.
insert into outbox ({outbox})
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (id, kind) do update
set
  at = excluded.at,
  position = excluded.position,
  namespace = excluded.namespace,
  tags = excluded.tags
