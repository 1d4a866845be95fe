-- Index: streams_pkey.
delete from streams
where execution = any($1)
