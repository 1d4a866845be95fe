-- Inserts or replaces a stream.
-- Index: the primary key of streams.
-- Parameters: ?1 execution, ?2 attempt, ?3 next, ?4 bytes, ?5 digest, ?6 summary_version
insert into streams (execution, attempt, {stream})
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (execution, attempt) do update
set
  next = excluded.next,
  bytes = excluded.bytes,
  digest = excluded.digest,
  summary_version = excluded.summary_version
