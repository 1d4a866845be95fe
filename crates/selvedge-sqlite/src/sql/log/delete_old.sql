-- Deletes the entries up to a number.
-- Index: the primary key of log.
-- Parameters: ?1 number
delete from log
where number <= ?1
