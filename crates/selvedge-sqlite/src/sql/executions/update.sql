-- Updates an execution if it has the expected version.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id, ?2 expected version, ?3 to ?20 the new columns, ?21 whether the result changes, ?22 the new result
update executions
set
  version = ?3,
  state = ?4,
  priority = ?5,
  ready_order = ?6,
  rank = ?6 - ?5 * {ageing},
  epoch = ?7,
  due_kind = ?8,
  due_at = ?9,
  session = ?10,
  lease_id = ?11,
  until_at = ?12,
  started_at = ?13,
  ended_at = ?14,
  tags = ?15,
  detail = ?16,
  history = ?17,
  joined = ?18,
  suspension = ?19,
  gate = ?20,
  result = case when ?21 then ?22 else result end
where id = ?1
  and version = ?2
