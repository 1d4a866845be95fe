-- Deletes the index entry for a tag of a flow.
-- Index: the primary key of flow_tags.
-- Parameters: ?1 namespace, ?2 tag, ?3 submitted_at, ?4 flow
delete from flow_tags
where namespace = ?1
  and tag = ?2
  and submitted_at = ?3
  and flow = ?4
