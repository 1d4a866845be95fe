-- Returns a page of the signals of an execution after a number, in order, with their payloads.
-- Index: the primary key of signals.
-- Parameters: ?1 execution, ?2 number, ?3 limit
select {signal}, payload
from signals
where execution = ?1
  and number > ?2
order by number
limit ?3
