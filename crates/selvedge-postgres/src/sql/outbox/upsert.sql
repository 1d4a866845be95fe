-- Inserts or replaces outbox rows.
-- Locks: the rows, in the order of the array. Index: outbox_pkey.
insert into outbox (id, kind, at, position, namespace, tags)
select *
from unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::integer[], $5::integer[], $6::text[])
on conflict (id, kind) do update
set at = excluded.at,
  position = excluded.position,
  namespace = excluded.namespace,
  tags = excluded.tags
