-- Locks: the executions, in id order; their rows are known. Index: executions_pkey.
select
from executions
where id = any($1)
order by id
for no key update
