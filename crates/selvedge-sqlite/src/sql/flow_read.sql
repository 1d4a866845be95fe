-- One flow. Expects the unique index on id.
-- ?1 id
select {flow}
from flows
where id = ?1
