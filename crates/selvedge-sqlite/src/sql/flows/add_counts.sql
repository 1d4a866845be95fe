-- Adds to the counts of a flow. A running flow without a live member is due to be settled; returns whether it is. The state of a
-- flow is decided by the rules: a flow that gets a live member is running before.
-- Index: the unique index on flows.id.
-- Parameters: ?1 id, ?2 to ?12 the amounts to add, ?13 the sum of those of live states, ?14 now
update flows
set
  version = version + 1,
  waiting_dependencies = waiting_dependencies + ?2,
  waiting = waiting + ?3,
  delayed = delayed + ?4,
  active = active + ?5,
  suspended = suspended + ?6,
  held = held + ?7,
  completed = completed + ?8,
  failed = failed + ?9,
  cancelled = cancelled + ?10,
  expired = expired + ?11,
  skipped = skipped + ?12,
  due_kind = case
    when state <> {flow_running} then due_kind
    when live + ?13 = 0 then {flow_settle}
  end,
  due_at = case
    when state <> {flow_running} then due_at
    when live + ?13 = 0 then ifnull(due_at, ?14)
  end
where id = ?1
returning state = {flow_running} and live = 0
