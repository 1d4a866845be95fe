-- Inserts executions; fails with unique_violation if one exists.
-- Locks: the new rows. Index: executions_pkey.
insert into executions (
  id, submitted_at, namespace, class, partition, flow, spec, wiring, input,
  version, epoch, state, claim_priority, due_kind, ready_order, due_at, session, until_at, started_at, ended_at, lease_id,
  tags, detail, history, joined, suspension, held_by, gate, gate_rank, result, pool
)
select *
from unnest(
  $1::uuid[], $2::timestamptz[], $3::integer[], $4::integer[], $5::smallint[], $6::uuid[], $7::text[], $8::bytea[],
  $9::bytea[],
  $10::integer[], $11::integer[], $12::smallint[], $13::smallint[], $14::smallint[], $15::timestamptz[],
  $16::timestamptz[], $17::bigint[], $18::timestamptz[], $19::timestamptz[], $20::timestamptz[], $21::uuid[],
  $22::text[], $23::text[], $24::bytea[], $25::bytea[], $26::bytea[], $27::bytea[], $28::bigint[],
  $29::bigint[], $30::bytea[], $31::integer[]
)
