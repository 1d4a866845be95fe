-- Inserts a session, or merges it with the stored one. A write of an earlier life changes nothing, one of a later life
-- replaces the row. Within a life, times never go back, a requested drain stays requested, and the detail stays.
-- Index: the primary key of sessions.
-- Parameters: ?1 to ?14 as {session}
insert into sessions ({session})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
on conflict (id) do update
set
  worker = excluded.worker,
  lanes = excluded.lanes,
  kinds = excluded.kinds,
  capabilities = excluded.capabilities,
  registered_at = iif(excluded.life > life, excluded.registered_at, registered_at),
  seen_at = max(seen_at, excluded.seen_at),
  renewed_at = iif(
    excluded.life > life,
    excluded.renewed_at,
    max(ifnull(renewed_at, excluded.renewed_at), ifnull(excluded.renewed_at, renewed_at))
  ),
  draining = iif(excluded.life > life, excluded.draining, max(draining, excluded.draining)),
  detail = iif(excluded.life > life, excluded.detail, detail),
  life = excluded.life
where excluded.life >= life
