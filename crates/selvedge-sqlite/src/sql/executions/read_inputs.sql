-- Returns the input of an execution.
-- Index: the unique index on executions.id, the primary key of inputs.
-- Parameters: ?1 id
select ifnull(input, (select body from inputs where inputs.execution = executions.id))
from executions
where id = ?1
