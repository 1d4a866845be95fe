-- Returns the size of the input of an execution, and the input up to a size.
-- Index: the unique index on executions.id, the primary key of inputs.
-- Parameters: ?1 id, ?2 the largest input
select {input_bytes},
  iif({input_bytes} > ?2, null, ifnull(input, (select body from inputs where inputs.execution = executions.id)))
from executions
where id = ?1
