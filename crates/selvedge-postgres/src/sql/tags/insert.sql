-- Inserts index entries for the tags of executions, unless they exist.
-- Locks: the new rows. Index: tags_pkey.
insert into tags (namespace, tag, submitted_at, execution)
select *
from unnest($1::integer[], $2::text[], $3::timestamptz[], $4::uuid[])
on conflict do nothing
