-- Deletes a class.
-- Index: the primary key of classes.
-- Parameters: ?1 id
delete from classes
where id = ?1
