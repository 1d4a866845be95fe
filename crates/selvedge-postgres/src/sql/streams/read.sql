-- Returns streams by execution and attempt, with their summary documents if $3 is true.
-- Locks: none. Index: streams_pkey.
select
  {stream},
  case when $3 then streams.summary end
from unnest($1::uuid[], $2::integer[]) as asked (execution, attempt)
join streams on streams.execution = asked.execution and streams.attempt = asked.attempt
