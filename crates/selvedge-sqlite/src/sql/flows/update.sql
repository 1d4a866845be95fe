-- Updates a flow, except its counts, if it has the expected version. The due time is set as in flows/insert; a flow
-- that already was due to be settled keeps its time.
-- Index: the unique index on flows.id.
-- Parameters: ?1 id, ?2 expected version, ?3 to ?9 the new columns, ?10 deletion time or null, ?11 now
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
    when ?10 is not null then {flow_delete}
    when ?7 = {flow_running} and live = 0 then {flow_settle}
  end,
  due_at = case
    when ?10 is not null then ?10
    when ?7 = {flow_running} and live = 0 then iif(due_kind = {flow_settle}, due_at, ?11)
  end
where id = ?1
  and version = ?2
