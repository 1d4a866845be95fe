-- Returns all waitpoints of executions.
-- Locks: none. Index: waitpoints_of_execution.
select {waitpoint}
from waitpoints
where execution = any($1)
