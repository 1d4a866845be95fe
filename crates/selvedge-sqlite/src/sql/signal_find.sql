-- A signal by the key of its sender, without its payload. Expects the index signals_key.
-- ?1 execution, ?2 key
select {signal}, null
from signals indexed by signals_key
where execution = ?1
  and key = ?2
