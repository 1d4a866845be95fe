-- Inserts a class with the id that it had before the database lost it, unless the id or the class exists. The caller holds
-- a lock on the whole table.
-- Locks: the new row. Index: classes_pkey, classes_namespace_lane_kind_capabilities_key.
insert into classes (id, namespace, lane, kind, capabilities, pool, used_at)
values ($1, $2, $3, $4, $5, $6, {now})
on conflict do nothing
