-- Deletes the index entry for a tag of an execution.
-- Index: the primary key of tags.
-- Parameters: ?1 namespace, ?2 tag, ?3 submitted_at, ?4 execution
delete from tags
where namespace = ?1
  and tag = ?2
  and submitted_at = ?3
  and execution = ?4
