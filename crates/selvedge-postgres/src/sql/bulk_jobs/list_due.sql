-- Returns the bulk jobs that are due, earliest first. An index condition cannot contain a volatile function, so the time is
-- read once in a subquery.
-- $2 restricts it to a namespace, if it is not null.
-- Locks: none. Index: bulk_jobs_due.
select {bulk_job}
from bulk_jobs
where due_at <= (select {now})
  and ($2::integer is null or namespace = $2)
order by due_at, id
limit $1
