-- All waitpoints of executions. Locks: nothing. Index: waitpoints_of_execution.
select {waitpoint}
from waitpoints
where execution = any($1)
