-- Signals of an execution after a number, in order. Locks: nothing. Index: signals_pkey.
select {signal}, signals.payload
from signals
where execution = $1
  and number > $2
order by number
limit $3
