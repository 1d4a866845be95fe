-- Returns an execution.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id
select {fixed}, {moving}, wiring
from executions
where id = ?1
