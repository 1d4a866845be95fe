-- One execution with its payloads, and when the session of its lease was last renewed.
-- Expects the unique index on id and the primary keys of inputs and sessions.
-- ?1 id
select {columns},
  ifnull(input, (select body from inputs where inputs.execution = executions.id)),
  result,
  (select renewed_at from sessions where sessions.id = executions.session)
from executions
where id = ?1
