-- Returns flows by id.
-- Locks: the flows, in id order. Index: flows_pkey.
select {flow}
from flows
where id = any($1)
order by id
for no key update
