-- Adds to the counts of flows; a flow that does not exist is skipped. A running flow without a live member is due to be settled.
-- Returns those. The state of a flow is decided by the rules: a flow that gets a live member is running before.
-- Locks: the flows, in the order of the array, which is id order. Index: flows_pkey, nested loop.
with counted as (
  update flows
  set version = flows.version + 1,
    due_kind = case
      when flows.state <> {flow_running} then flows.due_kind
      when {live} + more.live = 0 then {flow_settle}
    end,
    due_at = case
      when flows.state <> {flow_running} then flows.due_at
      when {live} + more.live = 0 then coalesce(flows.due_at, {now})
    end,
    waiting_dependencies = flows.waiting_dependencies + more.waiting_dependencies,
    waiting = flows.waiting + more.waiting,
    delayed = flows.delayed + more.delayed,
    active = flows.active + more.active,
    suspended = flows.suspended + more.suspended,
    held = flows.held + more.held,
    completed = flows.completed + more.completed,
    failed = flows.failed + more.failed,
    cancelled = flows.cancelled + more.cancelled,
    expired = flows.expired + more.expired,
    skipped = flows.skipped + more.skipped
  from unnest(
    $1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
    $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::integer[], $13::integer[]
  ) as more (
    id, waiting_dependencies, waiting, delayed, active, suspended, held, completed, failed, cancelled, expired, skipped, live
  )
  where flows.id = more.id
  returning flows.id, flows.due_kind
)
select id
from counted
where due_kind = {flow_settle}
