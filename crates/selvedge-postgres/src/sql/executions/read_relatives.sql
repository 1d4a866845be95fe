-- Returns the part of upstreams and children that a claim carries: how they ended, and their results.
-- Locks: none. Index: executions_pkey.
select id, spec, state, detail, result
from executions
where id = any($1)
