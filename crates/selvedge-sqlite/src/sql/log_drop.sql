-- Expects the primary key of log.
-- ?1 the last number to go
delete from log
where number <= ?1
