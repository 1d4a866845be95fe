-- Expects the primary key of history_pages.
-- ?1 execution
select lines
from history_pages
where execution = ?1
order by page
