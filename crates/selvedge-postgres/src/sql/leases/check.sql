-- Returns for each session its time to live, its last renewal and, unless that was in time, the end of the earliest first
-- term of its leases, from a time on below which the index has only dead entries.
-- Locks: none. Index: sessions_pkey; executions_lease, once per session that was not renewed in time.
select asked.id, sessions.ttl_ms, sessions.renewed_at, first.until_at
from unnest($1::bigint[], $2::timestamptz[]) as asked (id, since)
left join sessions on sessions.id = asked.id
left join lateral (
  select until_at
  from executions
  where executions.session = asked.id
    and executions.session is not null
    and until_at >= asked.since
  order by until_at
  limit 1
) as first
on sessions.renewed_at is null
  or sessions.renewed_at + sessions.ttl_ms * interval '1 millisecond' < {now}
