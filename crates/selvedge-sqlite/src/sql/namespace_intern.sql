-- Expects the unique index on name.
-- ?1 name
insert into namespaces (name)
values (?1)
on conflict do nothing
