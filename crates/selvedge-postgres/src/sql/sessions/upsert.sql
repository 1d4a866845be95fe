-- Inserts a session, or merges it with the stored one: times never go back, and a requested drain stays requested.
-- Locks: the session. Index: sessions_pkey.
insert into sessions (
  id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, renewed_at, draining
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (id) do update
set worker = excluded.worker,
  lanes = excluded.lanes,
  kinds = excluded.kinds,
  capabilities = excluded.capabilities,
  seen_at = greatest(sessions.seen_at, excluded.seen_at),
  renewed_at = greatest(sessions.renewed_at, excluded.renewed_at),
  draining = sessions.draining or excluded.draining
