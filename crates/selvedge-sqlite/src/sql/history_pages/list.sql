-- Returns the history pages of an execution, oldest first.
-- Index: the primary key of history_pages.
-- Parameters: ?1 execution
select lines
from history_pages
where execution = ?1
order by page
