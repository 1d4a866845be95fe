-- Inserts flows that must not be there yet; a unique violation says that one is. One without a live member is to be settled
-- since it was submitted. Index: flows_pkey.
insert into flows (
  id, submitted_at, namespace, name, tags, spec, version, state, due_kind, due_at, ended_at, detail,
  blocked, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped
)
select
  id, submitted_at, namespace, name, tags, spec, version, state,
  case when delete_at is not null then 2 when state = 0 and live = 0 then 1 end,
  case when delete_at is not null then delete_at when state = 0 and live = 0 then submitted_at end,
  ended_at, detail,
  blocked, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped
from unnest(
  $1::uuid[], $2::timestamptz[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::smallint[],
  $9::timestamptz[], $10::timestamptz[], $11::text[],
  $12::integer[], $13::integer[], $14::integer[], $15::integer[], $16::integer[], $17::integer[], $18::integer[],
  $19::integer[], $20::integer[], $21::integer[], $22::integer[], $23::integer[]
) as new (
  id, submitted_at, namespace, name, tags, spec, version, state, ended_at, delete_at, detail,
  blocked, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped, live
)
