-- Deletes best-effort frames that are too old, oldest first. Expects the index frames_old and the primary key of frames.
-- ?1 the time since which they are too old, ?2 limit
delete from frames
where (execution, attempt, number) in (
  select execution, attempt, number
  from frames indexed by frames_old
  where best_effort = 1
    and at <= ?1
  order by at
  limit ?2
)
