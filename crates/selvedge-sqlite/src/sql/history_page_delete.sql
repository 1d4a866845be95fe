-- Expects the primary key of history_pages.
-- ?1 execution
delete from history_pages
where execution = ?1
