-- Updates flow and wiring of executions that this transaction has just updated, and so locked.
-- Locks: none further. Index: executions_pkey.
update executions
set flow = new.flow,
  wiring = new.wiring
from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as new (id, flow, wiring)
where executions.id = new.id
