-- Names nodes; a unique violation says that a name is taken. Index: nodes_pkey.
insert into nodes (flow, name, submitted_at, execution)
select *
from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::uuid[])
