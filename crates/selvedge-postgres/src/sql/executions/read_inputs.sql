-- Returns the inputs of executions.
-- Locks: none. Index: executions_pkey.
select id, input
from executions
where id = any($1)
