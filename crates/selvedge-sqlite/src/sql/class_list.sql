-- Expects the primary key of classes.
-- ?1 the class after which to begin
select id, namespace, lane, kind, capabilities
from classes
where id > ?1
order by id
