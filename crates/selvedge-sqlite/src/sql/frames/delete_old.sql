-- Deletes old best-effort frames, oldest first.
-- Index: frames_old, the primary key of frames.
-- Parameters: ?1 the time up to which frames are old, ?2 limit
delete from frames
where (execution, attempt, number) in (
  select execution, attempt, number
  from frames indexed by frames_old
  where best_effort = 1
    and at <= ?1
  order by at
  limit ?2
)
