-- Returns the settings of a namespace.
-- Locks: none. Index: namespaces_pkey.
select suspension_timeout_ms, retention_ms, weight, deletion
from namespaces
where id = $1
