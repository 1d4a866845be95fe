-- Returns the bulk jobs that are due, earliest first.
-- Index: bulk_jobs_due.
-- Parameters: ?1 now, ?2 the limit, ?3 the namespace or null
select {bulk_job}
from bulk_jobs indexed by bulk_jobs_due
where due_at <= ?1
  and (?3 is null or namespace = ?3)
order by due_at, id
limit ?2
