-- Returns the transactions that may still fill a gap in the log: the holders of the writers' advisory lock $1.
-- Locks: none. Index: none; reads pg_locks.
select virtualtransaction
from pg_locks
where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())
  and classid = ($1::bigint >> 32)::oid
  and objid = ($1::bigint & 4294967295)::oid
  and objsubid = 1
  and granted
