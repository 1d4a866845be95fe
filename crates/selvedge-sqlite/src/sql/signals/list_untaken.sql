-- Returns the signals of an execution that no suspension has taken, in order, without their payloads.
-- Index: signals_untaken.
-- Parameters: ?1 execution
select {signal}, null
from signals indexed by signals_untaken
where execution = ?1
  and taken is null
order by number
