-- An input that is too long for its row. Expects the primary key of inputs.
-- ?1 execution, ?2 body
insert into inputs (execution, body)
values (?1, ?2)
