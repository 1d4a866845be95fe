-- Index: signals_pkey.
delete from signals
where execution = any($1)
