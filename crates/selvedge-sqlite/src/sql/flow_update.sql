-- A changed flow, all but its counts; changes nothing unless the version is the expected one. What is to be done about
-- it is as in flow_insert, and since when stays as it was. Expects the unique index on id.
-- ?1 id, ?2 expected version, ?10 when it may be deleted, ?11 now
update flows
set
  name = ?3,
  tags = ?4,
  spec = ?5,
  version = ?6,
  state = ?7,
  ended_at = ?8,
  detail = ?9,
  due_kind = case
    when ?10 is not null then 2
    when ?7 = 0 and live = 0 then 1
  end,
  due_at = case
    when ?10 is not null then ?10
    when ?7 = 0 and live = 0 then iif(due_kind = 1, due_at, ?11)
  end
where id = ?1
  and version = ?2
