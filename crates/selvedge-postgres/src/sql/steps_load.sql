-- All steps of executions. Locks: nothing. Index: steps_pkey.
select {step}
from steps
where execution = any($1)
