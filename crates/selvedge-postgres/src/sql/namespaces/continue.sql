-- Lets the ids of new namespaces continue after the highest one. The caller holds a lock on the whole table.
-- Locks: none. Index: namespaces_pkey.
select setval(
  pg_get_serial_sequence('namespaces', 'id'),
  greatest(
    (select max(id) from namespaces),
    nextval(pg_get_serial_sequence('namespaces', 'id')) - 1,
    1
  )
)
