-- Deletes a flow if it has the expected version; returns the columns that its entries in flow_tags are found by.
-- Index: the unique index on flows.id.
-- Parameters: ?1 id, ?2 expected version
delete from flows
where id = ?1
  and version = ?2
returning namespace, submitted_at, tags
