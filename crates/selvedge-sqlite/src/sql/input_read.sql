-- Expects the unique index on id and the primary key of inputs.
-- ?1 id
select ifnull(input, (select body from inputs where inputs.execution = executions.id))
from executions
where id = ?1
