-- Inserts a class with the next number unless it exists. The caller holds a lock on the whole table, so numbers become
-- visible in order and without gaps.
-- Locks: the new row. Index: classes_pkey, classes_namespace_lane_kind_capabilities_key.
insert into classes (id, namespace, lane, kind, capabilities)
values ((select coalesce(max(id), 0) + 1 from classes), $1, $2, $3, $4)
on conflict do nothing
