-- Returns a page of the signals of an execution after number $2, in order, with their payloads.
-- Locks: none. Index: signals_pkey.
select {signal}, signals.payload
from signals
where execution = $1
  and number > $2
order by number
limit $3
