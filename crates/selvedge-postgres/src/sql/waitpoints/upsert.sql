-- Inserts waitpoints, or updates what can change about them: the state, the expiry, and the key and
-- issue of the token.
-- Locks: the waitpoints. Index: waitpoints_pkey, waitpoints_of_execution.
insert into waitpoints ({waitpoint_columns})
select *
from unnest({waitpoint_types})
on conflict (id) do update
set key = excluded.key,
  expires_at = excluded.expires_at,
  state = excluded.state,
  signal = excluded.signal,
  effect = excluded.effect,
  issue = excluded.issue
