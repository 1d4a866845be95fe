-- Expects the unique index on id.
-- ?1 id
select result
from executions
where id = ?1
