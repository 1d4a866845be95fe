-- Returns an execution by rowid, with the size of its input, and with the input up to a size.
-- Index: the primary keys of executions and inputs.
-- Parameters: ?1 place, ?2 the largest input
select {fixed}, {moving}, wiring,
  {input_bytes},
  iif({input_bytes} > ?2, null, ifnull(input, (select body from inputs where inputs.execution = executions.id)))
from executions
where place = ?1
