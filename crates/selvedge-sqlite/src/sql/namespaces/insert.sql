-- Inserts a namespace, unless it exists.
-- Index: the unique index on namespaces.name.
-- Parameters: ?1 name
insert into namespaces (name)
values (?1)
on conflict do nothing
