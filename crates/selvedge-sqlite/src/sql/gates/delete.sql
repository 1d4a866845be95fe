-- Deletes a gate if it has the expected version.
-- Index: the primary key of gates.
-- Parameters: ?1 id, ?2 expected version
delete from gates
where id = ?1
  and version = ?2
