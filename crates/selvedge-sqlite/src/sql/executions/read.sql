-- Returns an execution.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id
select {columns}
from executions
where id = ?1
