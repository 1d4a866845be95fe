-- Writes waitpoints, new or not. All but where it stands, and the key of its token, is as it was made. Index: waitpoints_pkey.
insert into waitpoints (
  id, namespace, execution, number, name, source, key, created_at, expires_at, state, signal, effect
)
select *
from unnest(
  $1::uuid[], $2::integer[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[],
  $9::timestamptz[], $10::smallint[], $11::integer[], $12::smallint[]
)
on conflict (id) do update
set key = excluded.key,
  expires_at = excluded.expires_at,
  state = excluded.state,
  signal = excluded.signal,
  effect = excluded.effect
