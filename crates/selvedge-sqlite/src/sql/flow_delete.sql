-- Deletes a flow; changes nothing unless the version is the expected one. Tells what its entries in flow_tags are.
-- Expects the unique index on id.
-- ?1 id, ?2 expected version
delete from flows
where id = ?1
  and version = ?2
returning namespace, submitted_at, tags
