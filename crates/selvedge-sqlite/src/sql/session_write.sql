-- Writes a session. It merges: times never go back, and a drain that was asked for stays asked for.
-- Expects the primary key of sessions.
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
