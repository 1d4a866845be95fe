-- Returns gates by id.
-- Locks: the gates, in id order. Index: gates_pkey.
select {gate}
from gates
where gates.id = any($1)
order by gates.id
for update
