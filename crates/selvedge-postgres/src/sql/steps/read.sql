-- Returns all steps of executions.
-- Locks: none. Index: steps_pkey.
select {step}
from steps
where execution = any($1)
