-- Returns a signal by the key of its sender, without its payload.
-- Index: signals_key.
-- Parameters: ?1 execution, ?2 key
select {signal}, null
from signals indexed by signals_key
where execution = ?1
  and key = ?2
