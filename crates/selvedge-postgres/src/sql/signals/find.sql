-- Returns signals by execution and the key of their sender, without payloads.
-- Locks: none. Index: signals_key.
select {signal}, null::bytea
from unnest($1::uuid[], $2::text[]) as asked (execution, key)
join signals on signals.execution = asked.execution and signals.key = asked.key
where signals.key is not null
