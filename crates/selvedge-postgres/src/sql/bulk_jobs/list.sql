-- Returns a page of the bulk jobs of a namespace, newest first: those with ids smaller than the given one.
-- Locks: none. Index: bulk_jobs_namespace.
select {bulk_job}
from bulk_jobs
where namespace = $1
  and id < $2
order by id desc
limit $3
