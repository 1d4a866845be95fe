-- Replaces the settings of a namespace.
-- Index: the primary key of namespaces.
-- Parameters: ?1 id, ?2 suspension_timeout_ms
update namespaces
set suspension_timeout_ms = ?2
where id = ?1
