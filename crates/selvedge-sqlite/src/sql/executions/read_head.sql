-- Returns the namespace, the number of leases and the state of an execution.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id
select namespace, epoch, state
from executions
where id = ?1
