-- Returns the partitions that end before the window of $1 milliseconds, oldest first. A partition is named after its
-- last day.
-- Locks: none. Index: none; reads pg_inherits and pg_class.
select relname::text
from pg_inherits
join pg_class on pg_class.oid = inhrelid
where inhparent = 'log'::regclass
  and relname ~ '^log_[0-9]{8}$'
  and relname < 'log_' || to_char(
    ({now} - $1::bigint * interval '1 millisecond') at time zone 'UTC', 'YYYYMMDD'
  )
order by relname
