-- Returns sessions without leases that were last seen long ago, by id. Reads the whole table: sessions are few.
-- Index: executions_session.
-- Parameters: ?1 the time before which they were last seen, ?2 limit
select id
from sessions
where seen_at < ?1
  and not exists (
    select 1
    from executions indexed by executions_session
    where executions.session = sessions.id
  )
order by id
limit ?2
