-- Returns the invalid indexes of the schema, and whether each is being built at the moment.
-- Locks: none. Index: none; reads pg_index and the progress of commands.
select
  pg_class.relname::text,
  exists (select from pg_stat_progress_create_index where index_relid = indexrelid) as is_being_built
from pg_index
join pg_class on pg_class.oid = indexrelid
where not indisvalid
  and pg_class.relnamespace = current_schema()::regnamespace
order by 1
