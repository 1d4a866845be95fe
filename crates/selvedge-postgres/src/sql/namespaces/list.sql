-- Returns all namespaces, by id. They are few.
-- Locks: none. Index: namespaces_pkey.
select id, name
from namespaces
order by id
