-- Returns a stream with its summary document.
-- Index: the primary keys of streams and summaries.
-- Parameters: ?1 execution, ?2 attempt
select {stream}, document
from streams
left join summaries on summaries.execution = streams.execution and summaries.attempt = streams.attempt
where streams.execution = ?1
  and streams.attempt = ?2
