-- Draws the next number. Expects the primary key of log.
-- ?1 at, ?2 body
insert into log (at, body)
values (?1, ?2)
