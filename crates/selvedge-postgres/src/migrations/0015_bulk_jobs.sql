-- Bulk jobs: an action on all executions that match a filter, done in chunks. The chunk and the progress of the job are saved
-- together. Few rows: an ended job is deleted after seven days.

create table bulk_jobs (
  -- A UUID of version 7: ordered by the time of creation.
  id uuid primary key,
  namespace integer not null,
  state text not null,
  created_at timestamptz not null,
  ended_at timestamptz,
  -- While it runs, the time from which any server may continue it; then the time at which it is deleted.
  due_at timestamptz not null,
  -- The action, the filter and the operator, a JSON object. Never changes.
  spec text not null,
  -- The position in the list and the counts, a JSON object.
  progress text not null
) with (fillfactor = 50);

create index bulk_jobs_due on bulk_jobs (due_at, id);
create index bulk_jobs_namespace on bulk_jobs (namespace, id);

-- The deletion of the namespace: the id of the bulk job that deletes it, or 'done'; null if it is not deleted. The row stays,
-- because ids of namespaces are never used again.
alter table namespaces add column deletion text;
