-- Deletes index entries for the tags of executions.
-- Locks: the entries. Index: tags_pkey.
delete from tags
using unnest($1::integer[], $2::text[], $3::timestamptz[], $4::uuid[]) as old (namespace, tag, submitted_at, execution)
where tags.namespace = old.namespace
  and tags.tag = old.tag
  and tags.submitted_at = old.submitted_at
  and tags.execution = old.execution
