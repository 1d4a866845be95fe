-- Replaces the inputs of executions that the transaction has updated.
-- Locks: the executions, which are locked already. Index: executions_pkey.
update executions
set input = new.input
from unnest($1::uuid[], $2::bytea[]) as new (id, input)
where executions.id = new.id
