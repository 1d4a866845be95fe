-- Deletes bulk jobs by id.
-- Locks: the jobs. Index: bulk_jobs_pkey.
delete from bulk_jobs
where id = any($1)
