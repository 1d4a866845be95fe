-- Returns the settings of a namespace.
-- Locks: none. Index: namespaces_pkey.
select suspension_timeout_ms
from namespaces
where id = $1
