-- Inserts or replaces an outbox row.
-- Index: the primary key of outbox.
-- Parameters: ?1 to ?6 as {outbox}
insert into outbox ({outbox})
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (id, kind) do update
set
  at = excluded.at,
  position = excluded.position,
  namespace = excluded.namespace,
  tags = excluded.tags
