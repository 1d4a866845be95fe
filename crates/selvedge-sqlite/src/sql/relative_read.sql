-- Expects the unique index on id.
-- ?1 id
select spec, state, detail, result
from executions
where id = ?1
