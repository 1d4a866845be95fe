-- Locks: nothing. Index: flows_pkey.
select {flow}
from flows
where id = any($1)
