-- Returns the tables of the schema with at least $1 dead rows that are more than half as many as the live ones: name, dead and
-- live rows, and the seconds since the last vacuum.
-- Locks: none. Index: none; reads pg_class and the cumulative statistics.
select
  tables.name,
  tables.dead,
  tables.live,
  extract(epoch from clock_timestamp() - tables.vacuumed_at)::bigint as vacuumed_seconds
from (
  select
    relname::text as name,
    pg_stat_get_dead_tuples(oid) as dead,
    pg_stat_get_live_tuples(oid) as live,
    greatest(pg_stat_get_last_vacuum_time(oid), pg_stat_get_last_autovacuum_time(oid)) as vacuumed_at
  from pg_class
  where relnamespace = current_schema()::regnamespace
    and relkind = 'r'
) as tables
where tables.dead >= $1
  and tables.dead * 2 > tables.live
order by tables.dead desc
