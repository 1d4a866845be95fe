-- Inserts an event of the projection.
-- Index: the primary key of projected_events.
insert into projected_events (cursor, type, at, namespace, execution, flow, version, actor, data)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
