-- Returns the size of the payloads asked for of executions ($2 the input, $3 the result). Does not read the payloads.
-- Locks: none. Index: executions_pkey.
select
  id,
  (
    case when $2::boolean then octet_length(input) else 0 end
    + case when $3::boolean then coalesce(octet_length(result), 0) else 0 end
  )::bigint
from executions
where id = any($1)
