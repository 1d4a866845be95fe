-- Sessions without leases that were not seen for long. Reads every session: they are few.
-- Expects the index executions_session.
-- ?1 the time before which it was last seen, ?2 limit
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
