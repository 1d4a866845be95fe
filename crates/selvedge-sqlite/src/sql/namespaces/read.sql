-- Returns the settings of a namespace.
-- Index: the primary key of namespaces.
-- Parameters: ?1 id
select {settings}
from namespaces
where id = ?1
