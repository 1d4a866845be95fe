-- Replaces the settings of a namespace.
-- Locks: the row. Index: namespaces_pkey.
update namespaces
set suspension_timeout_ms = $2,
  retention_ms = $3,
  weight = $4,
  deletion = $5
where id = $1
