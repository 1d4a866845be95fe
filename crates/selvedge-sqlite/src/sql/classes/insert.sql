-- Inserts a class.
-- Index: the unique index of classes.
-- Parameters: ?1 namespace, ?2 lane, ?3 kind, ?4 capabilities
insert into classes (namespace, lane, kind, capabilities)
values (?1, ?2, ?3, ?4)
