-- Returns an execution with its payloads and the last renewal of the session that holds its lease.
-- Index: the unique index on executions.id, the primary keys of inputs and sessions.
-- Parameters: ?1 id
select {columns},
  ifnull(input, (select body from inputs where inputs.execution = executions.id)),
  result,
  (select renewed_at from sessions where sessions.id = executions.session)
from executions
where id = ?1
