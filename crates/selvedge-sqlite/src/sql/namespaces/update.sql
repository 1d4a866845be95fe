-- Replaces the settings of a namespace.
-- Index: the primary key of namespaces.
-- Parameters: ?1 id, ?2 suspension_timeout_ms, ?3 retention_ms, ?4 weight, ?5 deletion
update namespaces
set
  suspension_timeout_ms = ?2,
  retention_ms = ?3,
  weight = ?4,
  deletion = ?5
where id = ?1
