-- Returns executions by id with the payloads asked for ($2 the input, $3 the result) and the last renewal of the session
-- that holds their lease.
-- Locks: none. Index: executions_pkey, sessions_pkey.
select
  {columns},
  case when $2::boolean then input end,
  case when $3::boolean then result end,
  (select renewed_at from sessions where sessions.id = executions.session)
from executions
where id = any($1)
