-- Returns the settings of a namespace.
-- Index: the primary key of namespaces.
-- Parameters: ?1 id
select suspension_timeout_ms, retention_ms, weight
from namespaces
where id = ?1
