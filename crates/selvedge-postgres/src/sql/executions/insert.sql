-- Inserts executions; fails with unique_violation if one exists.
-- Locks: the new rows. Index: executions_pkey.
insert into executions (
  {fixed}, input,
  {moving}, gate, gate_rank, result, pool
)
select *
from unnest(
  {fixed_types}, $9::bytea[],
  {moving_types_from_10}, $28::bigint[], $29::bigint[], $30::bytea[], $31::integer[]
)
