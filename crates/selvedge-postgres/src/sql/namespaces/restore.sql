-- Inserts a namespace with the id that it had before the database lost it, unless the id or the name exists. The caller
-- holds a lock on the whole table.
-- Locks: the new row. Index: namespaces_pkey, namespaces_name_key.
insert into namespaces (id, name)
overriding system value
values ($1, $2)
on conflict do nothing
