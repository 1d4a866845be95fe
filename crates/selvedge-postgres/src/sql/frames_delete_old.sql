-- Deletes best-effort frames that are too old, oldest first. Locks: the frames, except those that somebody else has.
-- Index: frames_old, frames_pkey.
delete from frames
where (execution, attempt, number) in (
  select execution, attempt, number
  from frames
  where best_effort
    and at <= (select clock_timestamp() - $1::bigint * interval '1 millisecond')
  order by at
  limit $2
  for update skip locked
)
