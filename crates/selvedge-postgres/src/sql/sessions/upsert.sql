-- Inserts a session, or merges it with the stored one. A write of an earlier life changes nothing, one of a later life
-- replaces the row. Within a life, times never go back, a requested drain stays requested, and the detail stays.
-- Locks: the session. Index: sessions_pkey.
insert into sessions ({session})
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
on conflict (id) do update
set worker = excluded.worker,
  lanes = excluded.lanes,
  kinds = excluded.kinds,
  capabilities = excluded.capabilities,
  registered_at = case when excluded.life > sessions.life then excluded.registered_at else sessions.registered_at end,
  seen_at = greatest(sessions.seen_at, excluded.seen_at),
  renewed_at = case
    when excluded.life > sessions.life then excluded.renewed_at
    else greatest(sessions.renewed_at, excluded.renewed_at)
  end,
  draining = case
    when excluded.life > sessions.life then excluded.draining
    else sessions.draining or excluded.draining
  end,
  detail = case when excluded.life > sessions.life then excluded.detail else sessions.detail end,
  life = excluded.life
where excluded.life >= sessions.life
