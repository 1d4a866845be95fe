-- Deletes a bulk job.
-- Index: the primary key.
-- Parameters: ?1 the id
delete from bulk_jobs
where id = ?1
