-- Waits until no transaction writes attempts of the projection, and lets none begin to. A statement of its own: the next one
-- sees the attempts that were written.
-- Locks: an advisory lock, shared. Index: pg_class_relname_nsp_index, by the name of the table.
select pg_advisory_xact_lock_shared('projected_attempts'::regclass::oid::integer, 0)
