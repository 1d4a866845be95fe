-- Locks executions whose rows the server has cached; returns no columns.
-- Locks: the executions, in id order. Index: executions_pkey.
select
from executions
where id = any($1)
order by id
for no key update
