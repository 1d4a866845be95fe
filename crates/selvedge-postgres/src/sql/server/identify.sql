-- Returns a text that differs between two server processes and between two databases of one: a server that lost commits was
-- started at another time.
-- Locks: none. Index: pg_database_datname_index.
select concat(
  extract(epoch from pg_postmaster_start_time()),
  '/',
  (select oid from pg_database where datname = current_database())
)
