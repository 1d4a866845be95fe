-- Returns the positions of a page of a namespace's flows with a tag, newest first.
-- Index: the primary key of flow_tags, the unique index on flows.id.
-- Parameters: as in flows/list; ?8 the tag
select flow_tags.submitted_at, flow_tags.flow
from flow_tags
cross join flows on flows.id = flow_tags.flow
where flow_tags.namespace = ?1
  and flow_tags.tag = ?8
  and (flow_tags.submitted_at, flow_tags.flow) < (?2, ?3)
  and flow_tags.submitted_at >= ?4
  and (?6 is null or name = ?6)
  and (?7 is null or state in (select value from json_each(?7)))
order by flow_tags.submitted_at desc, flow_tags.flow desc
limit ?5
