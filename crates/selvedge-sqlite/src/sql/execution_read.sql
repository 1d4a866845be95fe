-- One execution's row. Expects the unique index on id.
-- ?1 id
select {columns}
from executions
where id = ?1
