-- Returns a waitpoint by id.
-- Index: the unique index on waitpoints.id, the primary key of waitpoints.
-- Parameters: ?1 id
select {waitpoint}
from waitpoints
where id = ?1
