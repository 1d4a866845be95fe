-- Returns all namespaces, by id. They are few.
-- Index: the primary key of namespaces.
select id, name
from namespaces
order by id
