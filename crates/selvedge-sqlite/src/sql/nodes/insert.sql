-- Inserts a node, unless its name is taken in its flow.
-- Index: the primary key of nodes.
-- Parameters: ?1 flow, ?2 name, ?3 submitted_at, ?4 execution
insert into nodes (flow, name, submitted_at, execution)
values (?1, ?2, ?3, ?4)
on conflict (flow, name) do nothing
