-- Deletes an execution; changes nothing unless the version is the expected one. Expects the unique index on id.
-- ?1 id, ?2 expected version
delete from executions
where id = ?1
  and version = ?2
