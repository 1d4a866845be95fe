-- Inserts history pages.
-- Locks: the new rows. Index: history_pages_pkey.
insert into history_pages (execution, page, lines)
select *
from unnest($1::uuid[], $2::integer[], $3::bytea[])
