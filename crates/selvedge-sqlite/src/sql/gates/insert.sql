-- Inserts a gate, unless its id is taken.
-- Index: the primary key of gates.
-- Parameters: ?1 to ?10 as {gate}
insert into gates ({gate})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
on conflict (id) do nothing
