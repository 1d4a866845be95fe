-- Returns the start of the oldest transaction that holds the writers' advisory lock $1, null if there is none. A holder
-- whose start is hidden from this role counts as older than all others.
-- Locks: none. Index: none; reads pg_locks and pg_stat_activity.
{oldest_writer}
