-- Returns a page of the bulk jobs of a namespace, newest first: those with ids smaller than the given one.
-- Index: bulk_jobs_namespace.
-- Parameters: ?1 the namespace, ?2 the id, ?3 the limit
select {bulk_job}
from bulk_jobs indexed by bulk_jobs_namespace
where namespace = ?1
  and id < ?2
order by id desc
limit ?3
