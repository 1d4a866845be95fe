insert into flow_tags (namespace, tag, submitted_at, flow)
select *
from unnest($1::integer[], $2::text[], $3::timestamptz[], $4::uuid[])
