-- Inserts an input that is too long for its execution's row.
-- Index: the primary key of inputs.
-- Parameters: ?1 execution, ?2 body
insert into inputs (execution, body)
values (?1, ?2)
