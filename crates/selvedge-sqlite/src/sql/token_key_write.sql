-- Writes a key of tokens, new or not. Expects the primary key of token_keys.
insert into token_keys ({token_key})
values (?1, ?2, ?3, ?4)
on conflict (id) do update
set
  fingerprint = excluded.fingerprint,
  created_at = excluded.created_at,
  retires_at = excluded.retires_at
