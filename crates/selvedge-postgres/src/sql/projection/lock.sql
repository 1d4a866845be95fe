-- Waits until no transaction deletes attempts of the projection, and lets none begin to. A statement of its own: the next one
-- sees which executions were deleted.
-- Locks: an advisory lock, exclusively. Index: pg_class_relname_nsp_index, by the name of the table.
select pg_advisory_xact_lock('projected_attempts'::regclass::oid::integer, 0)
