-- Deletes the index entries for the tags of flows. Runs before the flows themselves are deleted.
-- Locks: the entries. Index: flows_pkey, flow_tags_pkey.
with old as materialized (
  select flows.namespace, written.name || ':' || written.value as tag, flows.submitted_at, flows.id
  from unnest($1::uuid[]) as asked (id)
  join flows on flows.id = asked.id
  cross join lateral json_each_text(flows.tags::json) as written (name, value)
)
delete from flow_tags
using old
where flow_tags.namespace = old.namespace
  and flow_tags.tag = old.tag
  and flow_tags.submitted_at = old.submitted_at
  and flow_tags.flow = old.id
