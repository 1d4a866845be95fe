-- Returns the time of the database server.
-- Locks: none. Index: none.
select clock_timestamp()
