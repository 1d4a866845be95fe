-- Updates an execution if it has the expected version.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id, ?2 expected version, ?3 to ?21 the new columns, ?22 whether the result changes, ?23 the new result
update executions
set
  version = ?3,
  state = ?4,
  claim_priority = ?5,
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
  held_by = ?20,
  gate = ?21,
  result = case when ?22 then ?23 else result end
where id = ?1
  and version = ?2
