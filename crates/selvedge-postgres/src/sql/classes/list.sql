-- Returns the classes with a number greater than $1, in order.
-- Locks: none. Index: classes_pkey.
select {class}
from classes
where id > $1
order by id
