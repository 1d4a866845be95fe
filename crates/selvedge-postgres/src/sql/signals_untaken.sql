-- The signals of executions that no wait has taken. Locks: nothing. Index: signals_untaken.
select {signal}, null::bytea
from signals
where execution = any($1)
  and taken is null
