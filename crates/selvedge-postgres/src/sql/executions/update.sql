-- Updates executions that must still have their expected version; fails with division_by_zero if one does not.
-- Locks: the executions, in the order of the array, which is id order. Index: executions_pkey, nested loop.
with saved as (
  update executions
  set version = new.version,
    epoch = new.epoch,
    state = new.state,
    claim_priority = new.claim_priority,
    due_kind = new.due_kind,
    ready_order = new.ready_order,
    due_at = new.due_at,
    session = new.session,
    until_at = new.until_at,
    started_at = new.started_at,
    ended_at = new.ended_at,
    lease_id = new.lease_id,
    tags = new.tags,
    detail = new.detail,
    history = new.history,
    joined = new.joined,
    suspension = new.suspension,
    held_by = new.held_by,
    gate = new.gate,
    gate_rank = new.gate_rank,
    result = case when new.keeps_result then executions.result else new.result end
  from unnest(
    $1::uuid[], $2::integer[],
    {moving_types_from_3}, $21::bigint[], $22::bigint[], $23::bytea[], $24::boolean[]
  ) as new (id, expected_version, {moving}, gate, gate_rank, result, keeps_result)
  where executions.id = new.id
    and executions.version = new.expected_version
  returning 1
)
select 1 / (case when count(*) = cardinality($1::uuid[]) then 1 else 0 end)
from saved
