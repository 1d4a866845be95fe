-- The partitions that ended before the window began, oldest first. A partition is named after its last day.
select relname::text
from pg_inherits
join pg_class on pg_class.oid = inhrelid
where inhparent = 'log'::regclass
  and relname ~ '^log_[0-9]{8}$'
  and relname < 'log_' || to_char(
    (clock_timestamp() - $1::bigint * interval '1 millisecond') at time zone 'UTC', 'YYYYMMDD'
  )
order by relname
