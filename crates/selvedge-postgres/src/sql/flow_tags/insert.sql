-- Inserts index entries for the tags of new flows.
-- Locks: the new rows. Index: flow_tags_pkey.
insert into flow_tags (namespace, tag, submitted_at, flow)
select *
from unnest($1::integer[], $2::text[], $3::timestamptz[], $4::uuid[])
