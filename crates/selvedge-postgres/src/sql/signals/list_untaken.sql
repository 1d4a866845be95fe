-- Returns the signals of executions that no suspension has taken, without payloads.
-- Locks: none. Index: signals_untaken.
select {signal}, null::bytea
from signals
where execution = any($1)
  and taken is null
