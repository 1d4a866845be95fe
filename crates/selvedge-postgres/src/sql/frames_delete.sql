-- Index: frames_pkey.
delete from frames
where execution = any($1)
