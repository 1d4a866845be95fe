-- Returns the second keys of the advisory locks with the first key $1 that sessions of this database hold.
-- Locks: none. Index: none; reads pg_locks.
select distinct objid::bigint
from pg_locks
where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())
  and classid = ($1::bigint)::oid
  and objsubid = 2
  and granted
