-- Returns executions by id with their payloads and the last renewal of the session that holds their lease.
-- Locks: none. Index: executions_pkey, sessions_pkey.
select {columns}, input, result, (select renewed_at from sessions where sessions.id = executions.session)
from executions
where id = any($1)
