-- Up to which number the log was dropped. Expects the primary key of log_window.
select dropped
from log_window
where single = 1
