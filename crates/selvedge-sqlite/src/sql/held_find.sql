-- The executions that one gate holds, in claim order; the reader stops when it has enough.
-- Reads the index executions_held and no row.
-- ?1 gate
select id
from executions indexed by executions_held
where gate = ?1
order by priority desc, ready_order, id
