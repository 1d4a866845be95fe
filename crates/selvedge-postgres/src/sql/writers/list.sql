-- Returns the transactions that hold the writers' advisory lock $1.
-- Locks: none. Index: none; reads pg_locks.
select virtualtransaction
from pg_locks
where {is_writer}
