-- Locks: nothing. Index: executions_pkey.
select {columns}, input, result, (select renewed_at from sessions where sessions.id = executions.session)
from executions
where id = any($1)
