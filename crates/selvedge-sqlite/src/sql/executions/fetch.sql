-- Returns an execution with the payloads asked for and the last renewal of the session that holds its lease.
-- Index: the unique index on executions.id, the primary keys of inputs and sessions.
-- Parameters: ?1 id, ?2 and ?3 whether to read the input and the result
select {fixed}, {moving}, wiring,
  iif(?2, ifnull(input, (select body from inputs where inputs.execution = executions.id)), null),
  iif(?3, result, null),
  (select renewed_at from sessions where sessions.id = executions.session)
from executions
where id = ?1
