-- Returns the time of the store.
-- Locks: none. Index: store_clock_pkey.
select {now}
