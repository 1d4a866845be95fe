-- Deletes up to ?2 ended bulk jobs of a namespace.
-- Index: bulk_jobs_namespace.
-- Parameters: ?1 the namespace, ?2 the limit
delete from bulk_jobs
where id in (
  select id
  from bulk_jobs indexed by bulk_jobs_namespace
  where namespace = ?1
    and ended_at is not null
  limit ?2
)
