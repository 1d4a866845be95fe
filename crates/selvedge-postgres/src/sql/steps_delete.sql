-- Index: steps_pkey.
delete from steps
where execution = any($1)
