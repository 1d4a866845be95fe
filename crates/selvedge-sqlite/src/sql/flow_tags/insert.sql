-- Inserts an index entry for a tag of a flow, unless it exists.
-- Index: the primary key of flow_tags.
-- Parameters: ?1 namespace, ?2 tag, ?3 submitted_at, ?4 flow
insert into flow_tags (namespace, tag, submitted_at, flow)
values (?1, ?2, ?3, ?4)
on conflict do nothing
