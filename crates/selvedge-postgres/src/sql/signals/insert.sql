-- Inserts signals. Fails with unique_violation if a number or a key is taken: another transaction has delivered a
-- signal.
-- Locks: the new rows. Index: signals_pkey, signals_key, signals_untaken.
insert into signals (
  execution, number, name, source, waitpoint, waitpoint_name, key, digest, at, effect, taken, payload
)
select *
from unnest(
  $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::bigint[],
  $9::timestamptz[], $10::smallint[], $11::integer[], $12::bytea[]
)
