-- Locks: nothing. Index: executions_pkey.
select {columns}
from executions
where id = any($1)
