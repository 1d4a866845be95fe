-- Returns everything that keeps vacuum from removing dead rows of this database for longer than $1 seconds: kind, name, its
-- process, its age in seconds, and a detail. The age of a replication slot is unknown; it counts if nobody reads it, or if it
-- holds back more than a million transactions.
-- Locks: none. Index: none; reads views of the server's state.
select
  case when state like 'idle in transaction%' then 'idle transaction' else 'transaction' end as kind,
  coalesce(nullif(application_name, ''), usename::text, backend_type, '') as name,
  pid,
  extract(epoch from clock_timestamp() - xact_start)::bigint as seconds,
  coalesce(client_addr::text, '') as detail
from pg_stat_activity
where (datname = current_database() or datname is null)
  and pid <> pg_backend_pid()
  and backend_type <> 'autovacuum worker'
  and xact_start < clock_timestamp() - $1::bigint * interval '1 second'
union all
select
  'prepared transaction',
  gid,
  null,
  extract(epoch from clock_timestamp() - prepared)::bigint,
  ''
from pg_prepared_xacts
where database = current_database()
  and prepared < clock_timestamp() - $1::bigint * interval '1 second'
union all
select
  'replication slot',
  slot_name::text,
  active_pid,
  null,
  case
    when restart_lsn is null then ''
    when pg_is_in_recovery() then ''
    else pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) || ' of write-ahead log kept'
  end
from pg_replication_slots
where not temporary
  and (not active or age(xmin) > 1000000)
order by seconds desc nulls last
