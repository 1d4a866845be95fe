-- One execution with its payloads, and when the session of its lease was last renewed.
-- Expects the unique index on id and the primary keys of inputs and sessions.
-- ?1 id
select
  executions.id,
  executions.partition,
  executions.namespace,
  executions.class,
  executions.flow,
  executions.submitted_at,
  executions.spec,
  executions.version,
  executions.state,
  executions.priority,
  executions.ready_order,
  executions.epoch,
  executions.due_kind,
  executions.due_at,
  executions.session,
  executions.lease_id,
  executions.until_at,
  executions.started_at,
  executions.ended_at,
  executions.tags,
  executions.detail,
  executions.history,
  ifnull(input, (select body from inputs where inputs.execution = executions.id)),
  result,
  sessions.renewed_at
from executions
left join sessions on sessions.id = executions.session
where executions.id = ?1
