-- Returns the tables and B-tree indexes of the schema that have at least $1 pages more than $2 times those that their rows would
-- fill, by the widths that the last analysis has measured: name, true for an index, pages, estimated pages. Tables that were
-- never analysed are left out. The sizes are those of the last vacuum: asking for the files would need a lock.
-- Locks: none. Index: none; reads pg_class, pg_index and the statistics of columns.
with widths as (
  select tablename, attname, ((1 - null_frac) * avg_width)::numeric as width
  from pg_stats
  where schemaname = current_schema()
),
sized as (
  select
    relname::text as name,
    false as is_index,
    relpages::bigint as pages,
    -- A row has a pointer and a header of 28 bytes, a page a header of 24.
    ceil(reltuples::numeric * (28 + (select coalesce(sum(width), 0) from widths where tablename = relname)) / 8168)::bigint
      as needed
  from pg_class
  where relnamespace = current_schema()::regnamespace
    and relkind = 'r'
    and reltuples >= 0
  union all
  select
    pg_class.relname::text,
    true,
    pg_class.relpages::bigint,
    -- An entry has a pointer and a header of 12 bytes, and is aligned to 8. Pages are filled to nine tenths at first. An
    -- expression has no measured width.
    ceil(pg_class.reltuples::numeric * (20 + columns.width) / (8152 * 0.9))::bigint
  from pg_index
  join pg_class on pg_class.oid = indexrelid
  join pg_class as indexed on indexed.oid = indrelid
  join pg_am on pg_am.oid = pg_class.relam and amname = 'btree'
  cross join lateral (
    select coalesce(sum(coalesce(widths.width, 16)), 0) as width
    from unnest(indkey::smallint[]) as key (number)
    left join pg_attribute on attrelid = indrelid and attnum = key.number
    left join widths on tablename = indexed.relname and widths.attname = pg_attribute.attname
  ) as columns
  where pg_class.relnamespace = current_schema()::regnamespace
    and pg_class.relkind = 'i'
    and pg_class.reltuples >= 0
)
select name, is_index, pages, needed
from sized
where pages - needed * $2::bigint >= $1::bigint
order by pages - needed desc
