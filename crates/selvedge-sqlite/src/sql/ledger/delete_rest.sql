-- Deletes the ledgers of up to ?2 gates of a namespace.
-- Index: the primary key of gates, scanned; ledger_entries.
-- Parameters: ?1 the namespace, ?2 the limit
delete from ledger
where gate in (
  select id
  from gates
  where namespace = ?1
  limit ?2
)
