-- Returns the time at which the first bulk job is due.
-- Index: bulk_jobs_due.
select min(due_at)
from bulk_jobs indexed by bulk_jobs_due
