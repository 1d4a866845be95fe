-- Returns a bulk job.
-- Index: the primary key.
-- Parameters: ?1 the id
select {bulk_job}
from bulk_jobs
where id = ?1
