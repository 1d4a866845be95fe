-- Records that a class is in use.
-- Index: the primary key of classes.
-- Parameters: ?1 id, ?2 now
update classes
set used_at = ?2
where id = ?1
