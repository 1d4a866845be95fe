-- Inserts bulk jobs, or saves their state and progress. The rest of a job never changes.
-- Locks: the jobs, in the order of the array. Index: bulk_jobs_pkey.
insert into bulk_jobs ({bulk_job})
select *
from unnest({bulk_job_types})
on conflict (id) do update
set state = excluded.state,
  ended_at = excluded.ended_at,
  due_at = excluded.due_at,
  progress = excluded.progress
