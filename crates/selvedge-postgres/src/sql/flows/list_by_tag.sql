-- Returns a page of a namespace's flows with tag $9, newest first.
-- Locks: none. Index: flow_tags_pkey, backwards, then flows_pkey.
select {flow}
from (
  select flow_tags.flow
  from flow_tags
  where flow_tags.namespace = $1
    and flow_tags.tag = $9
    and (flow_tags.submitted_at, flow_tags.flow) < ($2, $3)
    and flow_tags.submitted_at >= $4
    and flow_tags.submitted_at < $5
  order by flow_tags.submitted_at desc, flow_tags.flow desc
) as tagged
join flows on flows.id = tagged.flow
where ($6::text is null or name = $6)
  and ($8::smallint[] is null or state = any($8))
limit $7
