-- Locks: nothing. Index: executions_pkey.
select id, result
from executions
where id = any($1)
