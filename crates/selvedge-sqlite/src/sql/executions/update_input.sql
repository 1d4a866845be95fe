-- Replaces the input of an execution that is stored in its row; null if it is stored separately.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id, ?2 input
update executions
set input = ?2
where id = ?1
