-- One execution's row. Expects the unique index on id.
-- ?1 id
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
  history
from executions
where id = ?1
