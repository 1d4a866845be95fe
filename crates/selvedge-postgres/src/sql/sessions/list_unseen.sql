-- Returns up to $2 sessions without leases that were last seen more than $1 milliseconds ago, longest unseen first.
-- Reads the whole table: sessions are few.
-- Locks: none. Index: executions_lease, once per unseen session.
select id
from sessions
where seen_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
  and not exists (select from executions where executions.session = sessions.id)
order by seen_at
limit $2
