-- One execution's row, found by its place, with its input. Expects the primary keys of executions and inputs.
-- ?1 place
select
  id,
  partition,
  namespace,
  class,
  flow,
  submitted_at,
  spec,
  version,
  state,
  priority,
  ready_order,
  epoch,
  due_kind,
  due_at,
  session,
  lease_id,
  until_at,
  started_at,
  ended_at,
  tags,
  detail,
  history,
  ifnull(input, (select body from inputs where inputs.execution = executions.id))
from executions
where place = ?1
