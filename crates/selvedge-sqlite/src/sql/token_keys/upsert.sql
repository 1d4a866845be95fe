-- Inserts or replaces a token key.
-- Index: the primary key of token_keys.
-- Parameters: ?1 to ?4 as {token_key}
insert into token_keys ({token_key})
values (?1, ?2, ?3, ?4)
on conflict (id) do update
set
  fingerprint = excluded.fingerprint,
  created_at = excluded.created_at,
  retires_at = excluded.retires_at
