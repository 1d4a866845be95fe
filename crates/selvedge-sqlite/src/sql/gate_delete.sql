-- Deletes a gate; changes nothing unless the version is the expected one. Expects the primary key of gates.
-- ?1 id, ?2 expected version
delete from gates
where id = ?1
  and version = ?2
