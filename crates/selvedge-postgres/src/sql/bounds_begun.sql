-- When the earliest of the transactions began that hold the writers' advisory lock; before all time where that is hidden.
select min(coalesce(xact_start, '-infinity'))
from pg_locks
left join pg_stat_activity using (pid)
where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())
  and classid = ($1::bigint >> 32)::oid
  and objid = ($1::bigint & 4294967295)::oid
  and objsubid = 1
  and granted
