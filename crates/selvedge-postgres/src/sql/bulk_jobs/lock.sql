-- Locks bulk jobs by id.
-- Locks: the jobs, by id. Index: bulk_jobs_pkey.
select {bulk_job}
from bulk_jobs
where id = any($1)
order by id
for update
