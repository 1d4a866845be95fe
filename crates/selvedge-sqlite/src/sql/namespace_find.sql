-- Expects the unique index on name.
-- ?1 name
select id
from namespaces
where name = ?1
