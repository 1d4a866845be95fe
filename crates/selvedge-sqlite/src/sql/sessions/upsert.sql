-- Inserts a session, or merges it with the stored one: times never go back, and a requested drain stays requested.
-- Index: the primary key of sessions.
-- Parameters: ?1 to ?12 as {session}
insert into sessions ({session})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
on conflict (id) do update
set
  worker = excluded.worker,
  lanes = excluded.lanes,
  kinds = excluded.kinds,
  capabilities = excluded.capabilities,
  seen_at = max(seen_at, excluded.seen_at),
  renewed_at = max(ifnull(renewed_at, excluded.renewed_at), ifnull(excluded.renewed_at, renewed_at)),
  draining = max(draining, excluded.draining)
