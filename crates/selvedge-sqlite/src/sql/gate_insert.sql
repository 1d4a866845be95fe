-- A new gate; changes nothing if there is one with its id. Expects the primary key of gates.
insert into gates ({gate})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
on conflict (id) do nothing
