-- Deletes the best-effort frames of streams that have a smaller number than asked for. Starts where the last deletion
-- ended, so the cost does not depend on the length of the stream.
-- Locks: the streams, the frames. Index: streams_pkey, frames_pkey.
with asked as materialized (
  select streams.execution, streams.attempt, streams.best_effort_from, dropped.before
  from unnest($1::uuid[], $2::integer[], $3::integer[]) as dropped (execution, attempt, before)
  join streams on streams.execution = dropped.execution and streams.attempt = dropped.attempt
),
moved as (
  update streams
  set best_effort_from = asked.before
  from asked
  where streams.execution = asked.execution
    and streams.attempt = asked.attempt
    and streams.best_effort_from < asked.before
)
delete from frames
using asked
where frames.execution = asked.execution
  and frames.attempt = asked.attempt
  and frames.number >= asked.best_effort_from
  and frames.number < asked.before
  and frames.best_effort
