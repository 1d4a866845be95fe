-- Returns the id of a namespace.
-- Index: the unique index on namespaces.name.
-- Parameters: ?1 name
select id
from namespaces
where name = ?1
