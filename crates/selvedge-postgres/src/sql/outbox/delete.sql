-- Deletes outbox rows by name.
-- Locks: the rows. Index: outbox_pkey.
delete from outbox
using unnest($1::uuid[], $2::smallint[]) as old (id, kind)
where outbox.id = old.id
  and outbox.kind = old.kind
