-- Adds to the counts of a flow. With a live member it runs and nothing is to be done; one that runs without is to be
-- settled; for one whose end was settled nothing else changes. Tells whether it is to be settled.
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
  state = case when live + ?13 > 0 then 0 else state end,
  ended_at = case when live + ?13 > 0 then null else ended_at end,
  due_kind = case
    when live + ?13 > 0 then null
    when state = 0 then 1
    else due_kind
  end,
  due_at = case
    when live + ?13 > 0 then null
    when state = 0 then ifnull(due_at, ?14)
    else due_at
  end
where id = ?1
returning state = 0 and live = 0
