-- Inserts executions that must not be there yet; a unique violation says that one is. Index: executions_pkey.
insert into executions (
  id, submitted_at, namespace, class, partition, flow, spec, input,
  version, epoch, state, priority, due_kind, ready_order, due_at, session, until_at, started_at, ended_at, lease_id,
  tags, detail, history, result
)
select *
from unnest(
  $1::uuid[], $2::timestamptz[], $3::integer[], $4::integer[], $5::smallint[], $6::uuid[], $7::text[], $8::bytea[],
  $9::integer[], $10::integer[], $11::smallint[], $12::smallint[], $13::smallint[], $14::timestamptz[],
  $15::timestamptz[], $16::bigint[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[], $20::uuid[],
  $21::text[], $22::text[], $23::bytea[], $24::bytea[]
)
