-- Adds to the counts of a flow. A running flow without a live member is due to be settled; returns whether it is. The state of a
-- flow is decided by the rules: a flow that gets a live member is running before.
-- Expects the unique index on id.
-- ?1 id, ?2 to ?12 how many more, ?13 how many more of them are live, ?14 now
update flows
set
  version = version + 1,
  blocked = blocked + ?2,
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
    when state <> 0 then due_kind
    when live + ?13 = 0 then 1
  end,
  due_at = case
    when state <> 0 then due_at
    when live + ?13 = 0 then ifnull(due_at, ?14)
  end
where id = ?1
returning state = 0 and live = 0
