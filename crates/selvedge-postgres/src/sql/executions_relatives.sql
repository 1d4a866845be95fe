-- Locks: nothing. Index: executions_pkey.
select id, spec, state, detail, result
from executions
where id = any($1)
