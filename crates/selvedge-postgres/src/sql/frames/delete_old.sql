-- Deletes up to $2 best-effort frames older than $1 milliseconds, oldest first.
-- Locks: the frames that no other transaction has locked. Index: frames_old, frames_pkey.
delete from frames
where (execution, attempt, number) in (
  select execution, attempt, number
  from frames
  where best_effort
    and at <= (select {now} - $1::bigint * interval '1 millisecond')
  order by at
  limit $2
  for update skip locked
)
