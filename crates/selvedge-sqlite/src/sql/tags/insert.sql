-- Inserts an index entry for a tag of an execution, unless it exists.
-- Index: the primary key of tags.
-- Parameters: ?1 namespace, ?2 tag, ?3 submitted_at, ?4 execution
insert into tags (namespace, tag, submitted_at, execution)
values (?1, ?2, ?3, ?4)
on conflict do nothing
