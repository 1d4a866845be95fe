-- Deletes an execution if it has the expected version.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id, ?2 expected version
delete from executions
where id = ?1
  and version = ?2
