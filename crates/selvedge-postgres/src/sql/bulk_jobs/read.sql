-- Returns a bulk job.
-- Locks: none. Index: bulk_jobs_pkey.
select {bulk_job}
from bulk_jobs
where id = $1
