-- The summary document only where it is asked for. Locks: nothing. Index: streams_pkey.
select
  streams.execution, streams.attempt, streams.next, streams.bytes, streams.digest, streams.summary_version,
  case when $3 then streams.summary end
from unnest($1::uuid[], $2::integer[]) as asked (execution, attempt)
join streams on streams.execution = asked.execution and streams.attempt = asked.attempt
