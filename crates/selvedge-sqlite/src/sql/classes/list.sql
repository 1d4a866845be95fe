-- Returns the classes with a greater number, in order.
-- Index: the primary key of classes.
-- Parameters: ?1 number
select id, namespace, lane, kind, capabilities, pool
from classes
where id > ?1
order by id
