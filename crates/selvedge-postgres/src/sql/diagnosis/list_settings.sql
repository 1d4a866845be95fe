-- Returns the settings $1 with the values that a new session of this user and database gets.
-- Locks: none. Index: none; reads the server's settings.
select name, reset_val
from pg_settings
where name = any($1)
