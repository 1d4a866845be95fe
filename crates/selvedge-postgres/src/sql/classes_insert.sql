-- The next number; the caller holds the table's exclusive lock.
insert into classes (id, namespace, lane, kind, capabilities)
values ((select coalesce(max(id), 0) + 1 from classes), $1, $2, $3, $4)
on conflict do nothing
