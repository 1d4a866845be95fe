-- Returns executions by id.
-- Locks: none. Index: executions_pkey.
select {columns}
from executions
where id = any($1)
