-- Signals of an execution in the order of their delivery, with their payloads. Expects the primary key of signals.
-- ?1 execution, ?2 the number after which to begin, ?3 limit
select {signal}, payload
from signals
where execution = ?1
  and number > ?2
order by number
limit ?3
