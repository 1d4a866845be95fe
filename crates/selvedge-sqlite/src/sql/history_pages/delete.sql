-- Deletes the history pages of an execution.
-- Index: the primary key of history_pages.
-- Parameters: ?1 execution
delete from history_pages
where execution = ?1
