-- A new name of a node; changes nothing if it is taken. Expects the primary key of nodes.
-- ?1 flow, ?2 name, ?3 submitted_at, ?4 execution
insert into nodes (flow, name, submitted_at, execution)
values (?1, ?2, ?3, ?4)
on conflict (flow, name) do nothing
