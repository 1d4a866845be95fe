-- Returns executions by id, except those that another transaction has locked.
-- Locks: the executions that are not locked yet, in id order. Index: executions_pkey.
select {columns}
from executions
where id = any($1)
order by id
for no key update skip locked
