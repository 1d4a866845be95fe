-- Appends an entry; its number is the next rowid.
-- Index: the primary key of log.
-- Parameters: ?1 at, ?2 body
insert into log (at, body)
values (?1, ?2)
