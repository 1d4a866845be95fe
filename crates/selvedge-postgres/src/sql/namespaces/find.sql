-- Returns the id of a namespace.
-- Locks: none. Index: namespaces_name_key.
select id
from namespaces
where name = $1
