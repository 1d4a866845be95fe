-- One execution's row, found by its place, with its input. Expects the primary keys of executions and inputs.
-- ?1 place
select {columns},
  ifnull(input, (select body from inputs where inputs.execution = executions.id))
from executions
where place = ?1
