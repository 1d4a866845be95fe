-- Inserts flows; fails with unique_violation if one exists. A flow with a deletion time is due to be deleted then; a
-- running flow without a live member is due to be settled since its submission.
-- Locks: the new rows. Index: flows_pkey.
insert into flows (
  id, submitted_at, namespace, name, tags, spec, version, state, due_kind, due_at, ended_at, detail,
  waiting_dependencies, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped
)
select
  id, submitted_at, namespace, name, tags, spec, version, state,
  case when delete_at is not null then {flow_delete} when state = {flow_running} and live = 0 then {flow_settle} end,
  case when delete_at is not null then delete_at when state = {flow_running} and live = 0 then submitted_at end,
  ended_at, detail,
  waiting_dependencies, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped
from unnest(
  $1::uuid[], $2::timestamptz[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::smallint[],
  $9::timestamptz[], $10::timestamptz[], $11::text[],
  $12::integer[], $13::integer[], $14::integer[], $15::integer[], $16::integer[], $17::integer[], $18::integer[],
  $19::integer[], $20::integer[], $21::integer[], $22::integer[], $23::integer[]
) as new (
  id, submitted_at, namespace, name, tags, spec, version, state, ended_at, delete_at, detail,
  waiting_dependencies, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped, live
)
