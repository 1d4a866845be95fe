-- The leases of a session. Expects the index executions_session.
-- ?1 session
select id, lease_id, epoch, until_at, detail
from executions indexed by executions_session
where session = ?1
order by id
