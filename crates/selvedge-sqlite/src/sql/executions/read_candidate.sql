-- Returns an execution by rowid, with its input.
-- Index: the primary keys of executions and inputs.
-- Parameters: ?1 place
select {columns},
  ifnull(input, (select body from inputs where inputs.execution = executions.id))
from executions
where place = ?1
