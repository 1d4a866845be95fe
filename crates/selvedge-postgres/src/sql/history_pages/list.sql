-- Returns the history pages of an execution, oldest first.
-- Locks: none. Index: history_pages_pkey.
select lines
from history_pages
where execution = $1
order by page
