-- Locks: the executions that nobody else has. Index: executions_pkey.
select {columns}
from executions
where id = any($1)
order by id
for no key update skip locked
