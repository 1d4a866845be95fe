insert into history_pages (execution, page, lines)
select *
from unnest($1::uuid[], $2::integer[], $3::bytea[])
