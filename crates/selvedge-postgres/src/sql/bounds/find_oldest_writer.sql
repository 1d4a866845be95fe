-- Returns the start of the oldest transaction that holds the writers' advisory lock $1, null if there is none. A holder
-- whose start is hidden from this role counts as older than all others.
-- Locks: none. Index: none; reads pg_locks and pg_stat_activity.
select min(coalesce(xact_start, '-infinity'))
from pg_locks
left join pg_stat_activity using (pid)
where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())
  and classid = ($1::bigint >> 32)::oid
  and objid = ($1::bigint & 4294967295)::oid
  and objsubid = 1
  and granted
