-- Inserts a namespace unless it exists.
-- Locks: the new row. Index: namespaces_name_key.
insert into namespaces (name)
values ($1)
on conflict do nothing
