-- Returns the part of an upstream or a child that a claim carries: how it ended, and its result.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id
select spec, state, detail, result
from executions
where id = ?1
