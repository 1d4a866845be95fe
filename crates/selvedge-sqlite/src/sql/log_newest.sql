-- The newest number that was drawn. Expects the primary keys of log and log_window.
select max(ifnull((select max(number) from log), 0), dropped)
from log_window
where single = 1
