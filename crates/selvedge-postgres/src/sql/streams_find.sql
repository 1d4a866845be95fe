-- Locks: nothing. Index: streams_pkey.
select
  streams.execution, streams.attempt, streams.next, streams.bytes, streams.digest, streams.summary_version, streams.summary
from unnest($1::uuid[], $2::integer[]) as asked (execution, attempt)
join streams on streams.execution = asked.execution and streams.attempt = asked.attempt
