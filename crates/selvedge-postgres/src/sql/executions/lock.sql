-- Returns executions by id.
-- Locks: the executions, in id order. Index: executions_pkey.
select {columns}
from executions
where id = any($1)
order by id
for no key update
