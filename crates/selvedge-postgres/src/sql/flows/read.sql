-- Returns flows by id.
-- Locks: none. Index: flows_pkey.
select {flow}
from flows
where id = any($1)
