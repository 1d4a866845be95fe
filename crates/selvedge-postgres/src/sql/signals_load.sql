-- All signals of executions, with their payloads. Locks: nothing. Index: signals_pkey.
select {signal}, signals.payload
from signals
where execution = any($1)
