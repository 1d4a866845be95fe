-- Returns up to $2 sessions without leases that can be deleted: last seen more than $1 milliseconds and twice their time to
-- live ago, and not renewed in time. Longest unseen first. Reads the whole table: sessions are few.
-- Locks: none. Index: executions_lease, once per unseen session.
select id
from sessions
where seen_at < {now} - greatest($1::bigint, 2 * ttl_ms) * interval '1 millisecond'
  and (renewed_at is null or renewed_at + ttl_ms * interval '1 millisecond' < {now})
  and not exists (select from executions where executions.session = sessions.id)
order by seen_at
limit $2
