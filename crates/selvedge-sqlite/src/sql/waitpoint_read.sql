-- Expects the unique index on id and the primary key of waitpoints.
-- ?1 id
select {waitpoint}
from waitpoints
where id = ?1
