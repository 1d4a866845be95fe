-- Inserts or replaces outbox rows.
-- Locks: the rows, in the order of the array. Index: outbox_pkey.
insert into outbox ({outbox_columns})
select *
from unnest({outbox_types})
on conflict (id, kind) do update
set at = excluded.at,
  position = excluded.position,
  namespace = excluded.namespace,
  tags = excluded.tags
