-- Deletes the history pages of executions.
-- Locks: the pages. Index: history_pages_pkey.
delete from history_pages
where execution = any($1)
