-- Returns the namespace, the number of leases and the state of an execution.
-- Locks: none. Index: executions_pkey.
select namespace, epoch, state
from executions
where id = $1
