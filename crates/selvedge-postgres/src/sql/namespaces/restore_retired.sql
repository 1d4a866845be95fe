-- Gives a namespace the name of a retired one again, which the database has lost. The caller holds a lock on the whole table.
-- Locks: the row. Index: namespaces_pkey.
update namespaces
set name = $2,
  deletion = 'done'
where id = $1
  and name <> $2
