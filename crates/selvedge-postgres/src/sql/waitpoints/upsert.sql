-- Inserts waitpoints, or updates what can change about them: the state, the expiry, and the key and
-- issue of the token.
-- Locks: the waitpoints. Index: waitpoints_pkey, waitpoints_of_execution.
insert into waitpoints (
  id, namespace, execution, number, name, source, key, created_at, expires_at, state, signal, effect,
  signals, prompt, issue
)
select *
from unnest(
  $1::uuid[], $2::integer[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[],
  $9::timestamptz[], $10::smallint[], $11::integer[], $12::smallint[], $13::text[], $14::text[], $15::integer[]
)
on conflict (id) do update
set key = excluded.key,
  expires_at = excluded.expires_at,
  state = excluded.state,
  signal = excluded.signal,
  effect = excluded.effect,
  issue = excluded.issue
