-- Returns the highest number that was dropped from the log, 0 if none was.
-- Index: the primary key of log_window.
select dropped
from log_window
where single = 1
