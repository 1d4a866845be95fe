-- Returns the newest number that was ever drawn.
-- Index: the primary keys of log and log_window.
select max(ifnull((select max(number) from log), 0), dropped)
from log_window
where single = 1
