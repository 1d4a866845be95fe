-- Returns the leases that a session holds.
-- Index: executions_session.
-- Parameters: ?1 session
select id, lease_id, epoch, until_at, detail
from executions indexed by executions_session
where session = ?1
order by id
