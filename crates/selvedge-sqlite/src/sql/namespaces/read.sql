-- Returns the settings of a namespace.
-- Index: the primary key of namespaces.
-- Parameters: ?1 id
select suspension_timeout_ms, retention_ms, weight, deletion
from namespaces
where id = ?1
