-- Signals of an execution that no wait has taken, in the order of their delivery, without their payloads. Expects the index
-- signals_untaken.
-- ?1 execution
select {signal}, null
from signals indexed by signals_untaken
where execution = ?1
  and taken is null
order by number
