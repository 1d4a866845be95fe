-- Inserts or replaces streams. A summary with an unchanged version is not written again.
-- Locks: the streams. Index: streams_pkey.
insert into streams ({stream_columns}, summary)
select *
from unnest({stream_types}, $7::bytea[])
on conflict (execution, attempt) do update
set next = excluded.next,
  bytes = excluded.bytes,
  digest = excluded.digest,
  summary_version = excluded.summary_version,
  summary = case
    when streams.summary_version = excluded.summary_version then streams.summary
    else excluded.summary
  end
