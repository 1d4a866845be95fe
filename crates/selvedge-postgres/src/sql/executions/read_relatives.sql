-- Returns the part of upstreams and children that a claim carries: how they ended, the size of detail and result together,
-- and both up to a size of $2.
-- Locks: none. Index: executions_pkey.
select id, spec, state, bytes,
  case when bytes <= $2 then detail end,
  case when bytes <= $2 then result end
from executions
cross join lateral (
  select coalesce(octet_length(detail), 0) + coalesce(octet_length(result), 0)
) as size (bytes)
where id = any($1)
