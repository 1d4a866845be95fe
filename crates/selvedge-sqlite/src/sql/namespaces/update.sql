-- Replaces the settings of a namespace. While the namespace is being deleted, only its deletion can end; afterwards nothing changes it.
-- Index: the primary key of namespaces.
-- Parameters: ?1 id, ?2 suspension_timeout_ms, ?3 retention_ms, ?4 weight, ?5 deletion
update namespaces
set
  suspension_timeout_ms = ?2,
  retention_ms = ?3,
  weight = ?4,
  deletion = ?5
where id = ?1
  and (deletion is null or (deletion <> 'done' and ?5 = 'done'))
