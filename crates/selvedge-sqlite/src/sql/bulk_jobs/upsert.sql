-- Inserts a bulk job, or saves its state and progress. The rest of a job never changes.
-- Index: the primary key.
-- Parameters: ?1 to ?8 the columns
insert into bulk_jobs ({bulk_job})
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (id) do update
set state = excluded.state,
  ended_at = excluded.ended_at,
  due_at = excluded.due_at,
  progress = excluded.progress
