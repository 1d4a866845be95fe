-- Returns all signals of executions, with their payloads.
-- Locks: none. Index: signals_pkey.
select {signal}, signals.payload
from signals
where execution = any($1)
